package bench;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.annotations.SerializedName;

import java.util.stream.LongStream;

/** What the bench tells a contender, on the first line of its standard input: the Job of the Go package contend. Times are in nanoseconds. */
final class Job {
    private static final Gson GSON = new GsonBuilder().setFieldNamingPolicy(FieldNamingPolicy.UPPER_CAMEL_CASE).create();

    String instance, brokers, group, topic, strategy, stub, ledger;
    @SerializedName("DLQ") String dlq;
    long maxPoll, wait, failEvery, failTimes;
    int parts, records, spin;

    static Job parse(String line) {
        return GSON.fromJson(line, Job.class);
    }

    /** The same work when nothing fails and nothing is waited for. */
    static Job rehearsal(Job job) {
        Job same = GSON.fromJson(GSON.toJson(job), Job.class);
        same.wait = same.failEvery = 0;
        return same;
    }

    /** Whether the records stand there already and the dependency is the ledger. */
    boolean race() {
        return !ledger.isEmpty();
    }

    /** The strategy's waits one by one, in milliseconds. */
    long[] intervals() {
        LongStream.Builder waits = LongStream.builder();
        for (JsonElement e : JsonParser.parseString(strategy).getAsJsonObject().getAsJsonArray("intervals")) {
            int times = 1;
            if (e.isJsonObject()) {
                JsonObject run = e.getAsJsonObject();
                times = run.get("times").getAsInt();
                e = run.get("wait");
            }
            long millis = Math.round(e.getAsDouble() * 1000);
            for (int i = 0; i < times; i++) {
                waits.add(millis);
            }
        }
        return waits.build().toArray();
    }
}
