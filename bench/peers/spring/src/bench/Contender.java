package bench;

import com.google.gson.JsonObject;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaOperations;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.CommonErrorHandler;
import org.springframework.kafka.listener.ContainerPausingBackOffHandler;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.ListenerContainerPauseService;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.listener.RetryListener;
import org.springframework.kafka.support.KafkaHeaders;
import org.springframework.kafka.support.TopicPartitionOffset;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.util.backoff.BackOffExecution;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;

/**
 * Spring Kafka at its best, as a contender of the bench; the Go package contend tells how the two talk. What it uses is Spring's own: DefaultErrorHandler
 * that keeps the rest of a poll instead of fetching it again, ContainerPausingBackOffHandler, DeadLetterPublishingRecoverer.
 *
 * <p>There is a container with one thread for each partition, six at most: in one container with several threads a pause is a pause of all, and
 * only the first interval counts. Offsets are committed for each poll, when all its records are done or dead-lettered.
 *
 * <p>What it does not do: counts of attempts and waits are in this process alone. They do not survive its end, and a partition does not take them along.
 */
public final class Contender {
    private static final int MOST_THREADS = 6;

    private final PrintStream out;
    private final Job job;
    private final List<KafkaMessageListenerContainer<byte[], byte[]>> containers = new ArrayList<>();
    private final AtomicInteger waiting = new AtomicInteger(); // containers

    private Contender(Job job, PrintStream out) {
        this.job = job;
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // what is on standard output is the bench's
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Contender c = new Contender(Job.parse(in.readLine()), out);
        Thread consuming = new Thread(c::consume, "contender");
        consuming.start();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            switch (line) {
                case "sample" -> c.sample();
                case "stop" -> new Thread(() -> c.leave(consuming), "leaving").start();
                default -> { }
            }
        }
        Runtime.getRuntime().halt(1); // the bench is gone
    }

    private void consume() {
        try {
            Handler handler = new Handler(job);
            if (job.race()) {
                warmUp();
            }
            start(handler);
        } catch (InterruptedException e) {
            // told to stop before it has begun
        } catch (Exception e) {
            say("Error", e.toString());
            Runtime.getRuntime().halt(1);
        }
    }

    private void start(Handler handler) throws InterruptedException {
        ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
        scheduler.setDaemon(true);
        scheduler.initialize();
        KafkaTemplate<byte[], byte[]> template = new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(producer()));
        synchronized (containers) {
            for (int i = 0; i < threads(); i++) {
                Lane lane = new Lane(handler);
                ContainerProperties properties = new ContainerProperties(job.topic);
                properties.setMessageListener(lane);
                properties.setDeliveryAttemptHeader(!job.race()); // in a race nobody looks at it
                DefaultErrorHandler errors = new DefaultErrorHandler(new Letters(template, job), () -> waits(job.intervals()),
                        new ContainerPausingBackOffHandler(new ListenerContainerPauseService(null, scheduler)));
                errors.setSeekAfterError(false);
                errors.addNotRetryableExceptions(Refused.Permanent.class);
                errors.setRetryListeners(lane);
                containers.add(container(properties, job.group, i, errors));
            }
            if (!job.race()) {
                containers.forEach(KafkaMessageListenerContainer::start);
                return;
            }
            // The members join one after the other, each with a rebalance; the race begins when all are there.
            containers.forEach(c -> {
                c.pause();
                c.start();
            });
        }
        await(20, () -> containers.stream().mapToInt(c -> assigned(c).size()).sum() == job.parts && containers.stream().noneMatch(c -> assigned(c).isEmpty()));
        containers.forEach(KafkaMessageListenerContainer::resume);
    }

    /**
     * A Java program is slow at first, which a service that runs for weeks does not notice and a race of a second does. So it takes the topic three times
     * before the race, as another group, with a book of its own and without faults and waits.
     */
    private void warmUp() throws InterruptedException {
        Job rehearsal = Job.rehearsal(job);
        Handler handler = new Handler(rehearsal, Ledger.scratch(rehearsal));
        for (int round = 0; round < 3; round++) {
            AtomicLong taken = new AtomicLong();
            MessageListener<byte[], byte[]> listener = record -> {
                try {
                    handler.handle(record, 1);
                } catch (Refused e) {
                    // the race is where it counts
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
                taken.incrementAndGet();
            };
            List<KafkaMessageListenerContainer<byte[], byte[]>> these = new ArrayList<>();
            for (int i = 0; i < threads(); i++) {
                List<TopicPartitionOffset> parts = new ArrayList<>();
                for (int p = i; p < job.parts; p += threads()) {
                    parts.add(new TopicPartitionOffset(job.topic, p, 0L));
                }
                ContainerProperties properties = new ContainerProperties(parts.toArray(new TopicPartitionOffset[0]));
                properties.setMessageListener(listener);
                these.add(container(properties, job.group + "-warm-up", i, new DefaultErrorHandler()));
            }
            these.forEach(KafkaMessageListenerContainer::start);
            await(10, () -> taken.get() >= (long) job.parts * (job.records - 1)); // the last row of the book may not be full
            stop(these);
        }
    }

    private KafkaMessageListenerContainer<byte[], byte[]> container(ContainerProperties properties, String group, int i, CommonErrorHandler errors) {
        properties.setGroupId(group);
        properties.setClientId(job.instance + "-" + i);
        var container = new KafkaMessageListenerContainer<>(new DefaultKafkaConsumerFactory<byte[], byte[]>(consumer()), properties);
        container.setBeanName(job.instance + "-" + i);
        container.setCommonErrorHandler(errors);
        return container;
    }

    private Map<String, Object> consumer() {
        Map<String, Object> c = new HashMap<>(Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, job.brokers,
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
                ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class,
                ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class));
        if (job.race()) {
            c.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 5000);
        }
        if (job.maxPoll > 0) {
            int most = (int) TimeUnit.NANOSECONDS.toMillis(job.maxPoll), session = Math.min(most, 6000);
            c.put(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, most);
            c.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, session);
            c.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, session / 3);
        }
        return c;
    }

    private Map<String, Object> producer() {
        return Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, job.brokers,
                ProducerConfig.LINGER_MS_CONFIG, 0, // 5 since kafka-clients 4, and each letter is waited for
                ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 5000,
                ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 5000, // as for the others
                ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class,
                ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
    }

    private int threads() {
        return Math.min(job.parts, MOST_THREADS);
    }

    private static BackOffExecution waits(long[] intervals) {
        AtomicInteger n = new AtomicInteger();
        return () -> n.get() < intervals.length ? intervals[n.getAndIncrement()] : BackOffExecution.STOP;
    }

    private static Collection<TopicPartition> assigned(KafkaMessageListenerContainer<?, ?> c) {
        Collection<TopicPartition> all = c.getAssignedPartitions();
        return all == null ? List.of() : all;
    }

    private static void await(int seconds, BooleanSupplier condition) throws InterruptedException {
        for (long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds); !condition.getAsBoolean() && System.nanoTime() < deadline; ) {
            Thread.sleep(2);
        }
    }

    private static void stop(List<KafkaMessageListenerContainer<byte[], byte[]>> those) throws InterruptedException {
        CountDownLatch running = new CountDownLatch(those.size());
        those.forEach(c -> c.stop(running::countDown));
        running.await(20, TimeUnit.SECONDS);
    }

    /** Leaves the group, and ends. */
    private void leave(Thread consuming) {
        consuming.interrupt();
        try {
            consuming.join();
            stop(containers);
        } catch (InterruptedException e) {
            // nobody does that
        }
        Runtime.getRuntime().halt(0);
    }

    private void sample() {
        double bytes = 0;
        synchronized (containers) {
            for (var c : containers) {
                for (var metrics : c.metrics().values()) {
                    for (var m : metrics.entrySet()) {
                        if (m.getKey().name().equals("incoming-byte-total") && m.getKey().group().equals("consumer-metrics")) {
                            bytes += (Double) m.getValue().metricValue();
                        }
                    }
                }
            }
        }
        JsonObject said = new JsonObject();
        said.addProperty("Sample", true);
        said.addProperty("Fetched", (long) bytes);
        say(said);
    }

    private void say(String what, String text) {
        JsonObject said = new JsonObject();
        said.addProperty(what, text);
        say(said);
    }

    private synchronized void say(JsonObject said) {
        Instant now = Instant.now();
        said.addProperty("At", TimeUnit.SECONDS.toNanos(now.getEpochSecond()) + now.getNano());
        out.println(said);
        out.flush();
    }

    /** The listener of one container. What it says of a breaker, which Spring has none of, is whether any container waits. */
    private final class Lane implements MessageListener<byte[], byte[]>, RetryListener {
        private final Handler handler;
        private boolean waits; // of the container's thread alone

        Lane(Handler handler) {
            this.handler = handler;
        }

        @Override
        public void onMessage(ConsumerRecord<byte[], byte[]> record) {
            try {
                handler.handle(record, attempt(record));
            } catch (RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
            waits(false);
        }

        @Override
        public void failedDelivery(ConsumerRecord<?, ?> record, Exception e, int attempt) {
            waits(!(e.getCause() instanceof Refused.Permanent));
        }

        @Override
        public void recovered(ConsumerRecord<?, ?> record, Exception e) {
            waits(false);
        }

        private void waits(boolean now) {
            if (now == waits) {
                return;
            }
            waits = now;
            if (now && waiting.getAndIncrement() == 0) {
                say("State", "open");
            } else if (!now && waiting.decrementAndGet() == 0) {
                say("State", "closed");
            }
        }

        private static int attempt(ConsumerRecord<byte[], byte[]> record) {
            var header = record.headers().lastHeader(KafkaHeaders.DELIVERY_ATTEMPT);
            return header == null ? 1 : ByteBuffer.wrap(header.value()).getInt();
        }
    }

    /** The dead letters: in the record's own partition, without the stack trace, and with the record's timestamp, which Spring by itself moves to a header. */
    private static final class Letters extends DeadLetterPublishingRecoverer {
        Letters(KafkaOperations<byte[], byte[]> template, Job job) {
            super(template, (record, e) -> new TopicPartition(job.dlq, record.partition()));
            setVerifyPartition(false);
            excludeHeader(HeaderNames.HeadersToAdd.EX_STACKTRACE);
        }

        @Override
        protected ProducerRecord<Object, Object> createProducerRecord(ConsumerRecord<?, ?> record, TopicPartition to, Headers headers, byte[] key, byte[] value) {
            ProducerRecord<Object, Object> letter = super.createProducerRecord(record, to, headers, key, value);
            return new ProducerRecord<>(letter.topic(), letter.partition(), record.timestamp(), letter.key(), letter.value(), letter.headers());
        }
    }
}
