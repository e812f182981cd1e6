package skep.kernel;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * Frames on the socket: four bytes of length, most significant first, then that many bytes of JSON.
 *
 * <p>Writing waits while the peer does not read, and with it the code that prints.
 */
final class Wire {
    private final DataInputStream input;
    private final OutputStream output;

    Wire(FileDescriptor socket) {
        input = new DataInputStream(new BufferedInputStream(new FileInputStream(socket), 1 << 16));
        output = new FileOutputStream(socket);
    }

    /** The next request; null when the peer has closed the socket. */
    @SuppressWarnings("unchecked")
    Map<String, Object> receive() throws IOException {
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
