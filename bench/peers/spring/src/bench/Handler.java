package bench;

import org.apache.kafka.clients.consumer.ConsumerRecord;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The work that every contender does for a record: a call of the stub, or a note in the ledger. As the Go package contend does it. */
final class Handler {
    private static final byte POISON = 'x';

    private final Job job;
    private final Ledger book; // null: the stub is called
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private volatile long spun;

    Handler(Job job) throws IOException {
        this(job, job.race() ? Ledger.open(job) : null);
    }

    Handler(Job job, Ledger book) {
        this.job = job;
        this.book = book;
    }

    void handle(ConsumerRecord<byte[], byte[]> record, int attempt) throws Exception {
        int status = book == null ? call(record, attempt) : note(record);
        if (status != 200) {
            throw Refused.with(status);
        }
    }

    private int note(ConsumerRecord<byte[], byte[]> record) throws InterruptedException {
        if (job.spin > 0) {
            spun = spin(job.spin);
        }
        if (job.wait > 0) {
            TimeUnit.NANOSECONDS.sleep(job.wait);
        }
        int partition = record.partition(), status = 200;
        long offset = record.offset();
        if (record.value()[0] == POISON) {
            status = 422;
        } else if (job.failEvery > 0 && partition == 0 && offset % job.failEvery == 0 && offset < job.failEvery * job.failTimes
                && book.calls(partition, offset) == 0) {
            status = 503;
        }
        book.note(partition, offset, status == 200);
        return status;
    }

    private static long spin(int turns) {
        long x = turns;
        for (int i = 0; i < turns; i++) {
            x ^= x << 13;
            x ^= x >>> 7;
            x ^= x << 17;
        }
        return x;
    }

    private int call(ConsumerRecord<byte[], byte[]> record, int attempt) throws Exception {
        HttpRequest question = HttpRequest.newBuilder(URI.create(job.stub + "/charge")).POST(BodyPublishers.noBody())
                .header("X-Record", record.topic() + "/" + record.partition() + "/" + record.offset())
                .header("X-Attempt", Integer.toString(attempt)).build();
        CompletableFuture<HttpResponse<Void>> answer = http.sendAsync(question, BodyHandlers.discarding());
        try {
            HttpResponse<Void> a = answer.get(2, TimeUnit.SECONDS); // the body included, which the request's own timeout is not about
            if (a.headers().firstValue("X-Stub-Die").isPresent()) {
                Runtime.getRuntime().halt(137);
            }
            return a.statusCode();
        } finally {
            answer.cancel(true);
        }
    }
}
