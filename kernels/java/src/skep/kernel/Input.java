package skep.kernel;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Objects;

/** {@code System.in}: each line is asked for when it is read, and there is none where nobody can be asked. */
final class Input extends InputStream {
    private final Wire wire;
    private final Outlet outlet;
    private volatile Thread asking;
    private byte[] line = {};
    private int place;
    private int asked;

    Input(Wire wire, Outlet outlet) {
        this.wire = wire;
        this.outlet = outlet;
    }

    /** A cell begins on this thread; whether it may ask. */
    void begin(boolean allowed) {
        asking = allowed ? Thread.currentThread() : null;
        line = new byte[0];
        place = 0;
    }

    /** The cell is over. */
    void end() {
        begin(false);
    }

    @Override
    public synchronized int read() throws IOException {
        return hasLine() ? line[place++] & 0xff : -1;
    }

    @Override
    public synchronized int read(byte[] into, int offset, int length) throws IOException {
        Objects.checkFromIndexSize(offset, length, into.length);
        if (length == 0) {
            return 0;
        }
        if (!hasLine()) {
            return -1;
        }
        int taken = Math.min(length, line.length - place);
        System.arraycopy(line, place, into, offset, taken);
        place += taken;
        return taken;
    }

    @Override
    public synchronized int available() {
        return line.length - place;
    }

    private boolean hasLine() throws IOException {
        if (place < line.length) {
            return true;
        }
        // The thread of the cell alone: it may end the cell, and read the next request, while another waits.
        if (asking != Thread.currentThread()) {
            return false;
        }
        String answer = ask();
        if (answer == null) {
            return false;
        }
        line = (answer + "\n").getBytes(StandardCharsets.UTF_8);
        place = 0;
        return true;
    }

    private String ask() throws IOException {
        asked++;
        String id = "i" + asked;
        System.out.flush();
        outlet.ask(id);
        try {
            Map<String, Object> answer = wire.await(id);
            return answer != null && answer.get("value") instanceof String value ? value : null;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            // A cell that is ended: no library may take this for the end of its input.
            Interruption.check();
            throw new java.io.InterruptedIOException("interrupted while waiting for input");
        }
    }
}
