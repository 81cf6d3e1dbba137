package bench;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * The dependency's book in memory, shared with the bench: the layout and the rules are those of the Go package ledger. For each partition there are 64
 * bytes of counters, then a word for each record, calls in the upper half and successes in the lower; all of it is changed atomically.
 */
final class Ledger {
    private static final VarHandle INT = MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());
    private static final VarHandle LONG = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
    private static final int NEXT = 0, CALLED = 8, DONE = 16, OUT_OF_ORDER = 24, COUNTERS = 64;
    private static final int CALL = 1 << 16, SUCCESS = 1;

    private final ByteBuffer memory;
    private final int each;

    private Ledger(ByteBuffer memory, int each) {
        this.memory = memory;
        this.each = each;
    }

    /** The book that the bench has made. */
    static Ledger open(Job job) throws IOException {
        int each = size(job);
        try (FileChannel file = FileChannel.open(Path.of(job.ledger), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            return new Ledger(file.map(FileChannel.MapMode.READ_WRITE, 0, (long) job.parts * each), each);
        }
    }

    /** A book of the same shape that nobody reads. */
    static Ledger scratch(Job job) {
        int each = size(job);
        return new Ledger(ByteBuffer.allocateDirect(job.parts * each + 8).alignedSlice(8), each);
    }

    private static int size(Job job) {
        return COUNTERS + (4 * job.records + 63) / 64 * 64;
    }

    void note(int partition, long offset, boolean ok) {
        int at = partition * each, add = ok ? CALL + SUCCESS : CALL;
        int word = (int) INT.getAndAdd(memory, at + COUNTERS + 4 * (int) offset, add) + add;
        if (word >>> 16 == 1) {
            LONG.getAndAdd(memory, at + CALLED, 1L);
        }
        long later = (long) LONG.getVolatile(memory, at + NEXT);
        if (ok && (word & 0xffff) == 1) {
            LONG.getAndAdd(memory, at + DONE, 1L);
            if (offset < later - 1) { // a later record was called before this one was done
                LONG.getAndAdd(memory, at + OUT_OF_ORDER, 1L);
            }
        }
        while (later <= offset && !LONG.compareAndSet(memory, at + NEXT, later, offset + 1)) {
            later = (long) LONG.getVolatile(memory, at + NEXT);
        }
    }

    int calls(int partition, long offset) {
        return (int) INT.getVolatile(memory, partition * each + COUNTERS + 4 * (int) offset) >>> 16;
    }
}
