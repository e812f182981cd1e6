package skep.kernel;

import java.io.FileInputStream;
import java.io.IOException;

/** What native code and child processes write to descriptors 1 and 2, which are pipes that only we read. */
final class Pump implements Runnable {
    private static final long SETTLE_MILLISECONDS = 500;

    private final Outlet outlet;
    private final int stream;
    private final FileInputStream pipe;
    private volatile boolean relaying;

    Pump(Outlet outlet, int stream) throws IOException {
        this.outlet = outlet;
        this.stream = stream;
        pipe = new FileInputStream("/proc/self/fd/" + (stream + 1));
        Thread thread = new Thread(this, "skep-descriptor-" + (stream + 1));
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void run() {
        byte[] buffer = new byte[1 << 15];
        try {
            while (true) {
                int length = pipe.read(buffer);
                relaying = true;
                outlet.write(stream, buffer, 0, length);
                relaying = false;
            }
        } catch (IOException broken) {
            throw new java.io.UncheckedIOException("cannot read descriptor " + (stream + 1), broken);
        }
    }

    /** Waits until what was in the pipe is told, or something in the background writes on and on. */
    void settle() throws IOException, InterruptedException {
        long deadline = System.nanoTime() + SETTLE_MILLISECONDS * 1_000_000;
        while ((pipe.available() > 0 || relaying) && System.nanoTime() < deadline) {
            Thread.sleep(1);
        }
    }
}
