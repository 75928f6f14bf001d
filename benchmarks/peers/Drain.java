// Runs Debezium's embedded engine with the settings of a file until it has given so many changes, and says how
// long that took. Arguments: the file, how many changes. No sink: the records are counted and forgotten.

import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.DebeziumEngine.RecordCommitter;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import io.debezium.embedded.Connect;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.connect.source.SourceRecord;

public final class Drain {
    private final long wanted;
    private final CountDownLatch ended = new CountDownLatch(1);
    private long events;
    private long first;
    private long last;
    private Throwable failure;

    private Drain(long wanted) {
        this.wanted = wanted;
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]), StandardCharsets.UTF_8)) {
            settings.load(file);
        }
        Drain drain = new Drain(Long.parseLong(arguments[1]));
        long started = System.nanoTime();
        drain.run(settings);
        if (drain.failure != null) {
            drain.failure.printStackTrace();
            System.exit(1);
        }
        System.out.printf(
                Locale.ROOT,
                "{\"events\": %d, \"seconds\": %.6f, \"seconds_with_start\": %.6f}%n",
                drain.events, (drain.last - drain.first) / 1e9, (drain.last - started) / 1e9);
        System.out.flush();
        // Its shutdown takes seconds that nobody asked for.
        Runtime.getRuntime().halt(0);
    }

    private void run(Properties settings) throws InterruptedException {
        DebeziumEngine<RecordChangeEvent<SourceRecord>> engine = DebeziumEngine
                .create(ChangeEventFormat.of(Connect.class))
                .using(settings)
                .using((success, message, error) -> {
                    if (events < wanted) {
                        failure = error != null ? error : new IllegalStateException("The engine stopped: " + message);
                    }
                    ended.countDown();
                })
                .notifying(this::take)
                .build();
        Thread thread = new Thread(engine, "engine");
        thread.setDaemon(true);
        thread.start();
        ended.await();
    }

    private void take(
            List<RecordChangeEvent<SourceRecord>> records, RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
            throws InterruptedException {
        if (events == 0) {
            first = System.nanoTime();
        }
        events += records.size();
        committer.markProcessed(records.get(records.size() - 1));
        committer.markBatchFinished();
        if (events >= wanted) {
            last = System.nanoTime();
            ended.countDown();
        }
    }
}
