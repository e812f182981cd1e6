package skep.kernel;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;

/**
 * Frames on the socket: four bytes of length, most significant first, then that many bytes of JSON.
 *
 * <p>Writing waits while the peer does not read, and with it the code that prints.
 */
final class Wire {
    private final DataInputStream input;
    private final OutputStream output;
    private final Deque<Map<String, Object>> kept = new ArrayDeque<>();

    /** A message that another thread reads, because a read from a socket cannot be interrupted. */
    private FutureTask<Map<String, Object>> next;

    Wire(FileDescriptor socket) {
        input = new DataInputStream(new BufferedInputStream(new FileInputStream(socket), 1 << 16));
        output = new FileOutputStream(socket);
    }

    /** The next request; null when the peer has closed the socket. */
    Map<String, Object> receive() throws IOException {
        if (!kept.isEmpty()) {
            return kept.removeFirst();
        }
        if (next == null) {
            return read();
        }
        try {
            return take();
        } catch (InterruptedException late) {
            // Meant for the cell before; what it left to be read is still read.
            return receive();
        }
    }

    /** The answer to a question of the cell; null when the peer has closed the socket. Other requests wait for their turn. */
    Map<String, Object> await(String question) throws IOException, InterruptedException {
        while (true) {
            if (next == null) {
                next = new FutureTask<>(this::read);
                Thread reader = new Thread(next, "skep-answer");
                reader.setDaemon(true);
                reader.start();
            }
            Map<String, Object> message = take();
            if (message == null) {
                return null;
            }
            if (!"input_reply".equals(message.get("type"))) {
                kept.addLast(message);
            } else if (question.equals(message.get("parent"))) {
                return message;
            }
        }
    }

    private Map<String, Object> take() throws IOException, InterruptedException {
        try {
            Map<String, Object> message = next.get();
            next = null;
            return message;
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof IOException cause ? cause : new IOException(failed.getCause());
        }
    }

    @SuppressWarnings("unchecked")
    private Map<String, Object> read() throws IOException {
        byte[] body;
        try {
            body = new byte[input.readInt()];
            input.readFully(body);
        } catch (java.io.EOFException end) {
            return null;
        }
        return (Map<String, Object>) Json.parse(new String(body, StandardCharsets.UTF_8));
    }

    /** Sends one message, whole. */
    synchronized void send(CharSequence message) {
        byte[] body = message.toString().getBytes(StandardCharsets.ISO_8859_1);
        byte[] frame = new byte[4 + body.length];
        for (int index = 0; index < 4; index++) {
            frame[index] = (byte) (body.length >>> (24 - 8 * index));
        }
        System.arraycopy(body, 0, frame, 4, body.length);
        try {
            output.write(frame);
        } catch (IOException gone) {
            // What cannot be delivered must not be computed either.
            Runtime.getRuntime().halt(Main.PEER_GONE);
        }
    }
}
