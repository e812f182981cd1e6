package skep.kernel;

import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.concurrent.Semaphore;

/** What native code and child processes write to descriptors 1 and 2, which are pipes that only we read. */
final class Pump implements Runnable {
    private final Outlet outlet;
    private final int stream;
    private final FileInputStream pipe;
    private final FileOutputStream ownEnd;
    private final byte[] mark;
    private final Semaphore marksSeen = new Semaphore(0);

    Pump(Outlet outlet, int stream) throws IOException {
        this.outlet = outlet;
        this.stream = stream;
        String path = "/proc/self/fd/" + (stream + 1);
        mark = newMark();
        pipe = new FileInputStream(path);
        ownEnd = new FileOutputStream(path);
        Thread thread = new Thread(this, "skep-descriptor-" + (stream + 1));
        thread.setDaemon(true);
        thread.start();
    }

    /** Nobody else writes this by chance. No text has its first byte, so none is held back for it. */
    private static byte[] newMark() throws IOException {
        // Java's own source of randomness takes long to load.
        try (FileInputStream source = new FileInputStream("/dev/urandom")) {
            byte[] mark = source.readNBytes(16);
            mark[0] = (byte) 0xff;
            return mark;
        }
    }

    @Override
    public void run() {
        byte[] buffer = new byte[1 << 15];
        int held = 0;
        try {
            while (true) {
                int end = held + pipe.read(buffer, held, buffer.length - held);
                int start = 0;
                int found = find(buffer, start, end);
                while (found + mark.length <= end) {
                    outlet.write(stream, buffer, start, found - start);
                    marksSeen.release();
                    start = found + mark.length;
                    found = find(buffer, start, end);
                }
                outlet.write(stream, buffer, start, found - start);
                held = end - found;
                System.arraycopy(buffer, found, buffer, 0, held);
            }
        } catch (IOException broken) {
            throw new java.io.UncheckedIOException("cannot read descriptor " + (stream + 1), broken);
        }
    }

    /** Where a mark is, or the beginning of one at the very end, or else the end. */
    private int find(byte[] buffer, int start, int end) {
        for (int at = start; at < end; at++) {
            int length = Math.min(mark.length, end - at);
            if (Arrays.equals(buffer, at, at + length, mark, 0, length)) {
                return at;
            }
        }
        return end;
    }

    /** Waits until all is told that was in the pipe. What follows a mark was written after it. */
    void settle() throws IOException {
        ownEnd.write(mark);
        marksSeen.acquireUninterruptibly();
    }
}
