package bench;

import org.apache.kafka.clients.consumer.ConsumerRecord;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.SocketTimeoutException;
import java.net.URL;
import java.util.concurrent.TimeUnit;

/** The work that every contender does for a record: a call of the stub, or a note in the ledger. As the Go package contend does it. */
final class Handler {
    private static final byte POISON = 'x';
    private static final int TIMEOUT = 2; // seconds

    static { // of HttpURLConnection, which takes less than half the time of the newer HttpClient for a call
        System.setProperty("http.maxConnections", "1000");
        System.setProperty("sun.net.http.retryPost", "false");
    }

    private final Job job;
    private final Ledger book; // null: the stub is called
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

    private int call(ConsumerRecord<byte[], byte[]> record, int attempt) throws IOException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT);
        HttpURLConnection call = (HttpURLConnection) new URL(job.stub + "/charge").openConnection();
        call.setConnectTimeout((int) TimeUnit.SECONDS.toMillis(TIMEOUT));
        call.setReadTimeout((int) TimeUnit.SECONDS.toMillis(TIMEOUT)); // of each read: hence the deadline
        call.setRequestMethod("POST");
        call.setRequestProperty("X-Record", record.topic() + "/" + record.partition() + "/" + record.offset());
        call.setRequestProperty("X-Attempt", Integer.toString(attempt));
        call.setDoOutput(true);
        call.getOutputStream().close(); // nothing
        int status = call.getResponseCode();
        if (call.getHeaderField("X-Stub-Die") != null) {
            Runtime.getRuntime().halt(137);
        }
        try (InputStream body = status < 400 ? call.getInputStream() : call.getErrorStream()) {
            byte[] some = new byte[1024];
            while (body != null && body.read(some) >= 0) {
                if (System.nanoTime() > deadline) {
                    call.disconnect();
                    throw new SocketTimeoutException("no whole answer in " + TIMEOUT + " s");
                }
            }
        }
        return status;
    }
}
