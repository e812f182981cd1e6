package skep.kernel;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * All that the kernel says, in one order.
 *
 * <p>The first text of a cell is sent as it is written, and so is text after a quiet moment. What follows within the same
 * moment is collected for a few milliseconds or until it is a message's worth: a loop that prints does not pay for a system call
 * each time.
 */
final class Outlet {
    private static final long QUIET_NANOSECONDS = 1_000_000;
    private static final long DELAY_MILLISECONDS = 4;
    private static final int LARGEST_TEXT = 1 << 15;

    private final Wire wire;
    private final Stream[] streams = {new Stream("stdout"), new Stream("stderr")};
    private final StringBuilder pending = new StringBuilder();
    private Stream pendingStream = streams[0];
    private long lastSent = System.nanoTime() - QUIET_NANOSECONDS;
    private String parent = "null";

    Outlet(Wire wire) {
        this.wire = wire;
        Thread flusher = new Thread(this::flushLate, "skep-output");
        flusher.setDaemon(true);
        flusher.start();
    }

    /** One of the two streams, putting bytes together to characters. */
    private static final class Stream {
        final String name;
        final CharsetDecoder decoder = StandardCharsets.UTF_8
                .newDecoder()
                .onMalformedInput(CodingErrorAction.REPLACE)
                .onUnmappableCharacter(CodingErrorAction.REPLACE);
        byte[] rest = new byte[0];

        Stream(String name) {
            this.name = name;
        }

        CharBuffer decode(byte[] bytes, int offset, int length, boolean last) {
            ByteBuffer input = ByteBuffer.allocate(rest.length + length).put(rest).put(bytes, offset, length).flip();
            CharBuffer output = CharBuffer.allocate(input.remaining() + 2);
            decoder.decode(input, output, last);
            if (last) {
                decoder.flush(output);
                decoder.reset();
            }
            rest = new byte[input.remaining()];
            input.get(rest);
            return output.flip();
        }
    }

    /** Text for a stream: 0 is standard output, 1 standard error. */
    synchronized void write(int stream, byte[] bytes, int offset, int length) {
        print(streams[stream], streams[stream].decode(bytes, offset, length, false));
    }

    private void print(Stream stream, CharSequence text) {
        if (text.length() == 0) {
            return;
        }
        if (stream != pendingStream) {
            flush();
            pendingStream = stream;
        }
        boolean quiet = pending.length() == 0 && System.nanoTime() - lastSent > QUIET_NANOSECONDS;
        for (int start = 0; start < text.length(); start += LARGEST_TEXT) {
            pending.append(text, start, Math.min(text.length(), start + LARGEST_TEXT));
            if (pending.length() >= LARGEST_TEXT) {
                flush();
            }
        }
        if (quiet) {
            flush();
        } else {
            notifyAll();
        }
    }

    /** Everything printed so far is on the wire afterwards. */
    synchronized void flush() {
        int length = pending.length();
        // A pair must not be torn: each half alone is no character.
        int kept = length > 1 && Character.isHighSurrogate(pending.charAt(length - 1)) ? 1 : 0;
        if (length > kept) {
            StringBuilder message = message("stream").append(",\"name\":\"").append(pendingStream.name).append("\",\"text\":");
            Json.quote(pending.subSequence(0, length - kept), message);
            pending.delete(0, length - kept);
            wire.send(message.append('}'));
            lastSent = System.nanoTime();
        }
    }

    private synchronized void flushLate() {
        try {
            while (true) {
                while (pending.length() == 0) {
                    wait();
                }
                wait(DELAY_MILLISECONDS);
                flush();
            }
        } catch (InterruptedException end) {
            flush();
        }
    }

    /** A cell begins. */
    synchronized void begin(String id, int count) {
        flush();
        StringBuilder quoted = new StringBuilder();
        Json.quote(id, quoted);
        parent = quoted.toString();
        lastSent = System.nanoTime() - 2 * QUIET_NANOSECONDS;
        wire.send(message("status").append(",\"state\":\"busy\"}"));
        wire.send(message("execute_input").append(",\"execution_count\":").append(count).append('}'));
    }

    /** The cell has ended. */
    synchronized void end(int count, boolean failed) {
        for (Stream stream : streams) {
            print(stream, stream.decode(new byte[0], 0, 0, true));
        }
        flush();
        wire.send(message("reply")
                .append(",\"status\":\"").append(failed ? "error" : "ok")
                .append("\",\"execution_count\":").append(count)
                .append(",\"payload\":[],\"exiting\":false}"));
        wire.send(message("status").append(",\"state\":\"idle\"}"));
        parent = "null";
    }

    /** The value of the cell. */
    synchronized void result(String text, int count) {
        flush();
        StringBuilder message = message("execute_result").append(",\"execution_count\":").append(count)
                .append(",\"data\":{\"text/plain\":");
        Json.quote(text, message);
        wire.send(message.append("},\"metadata\":{}}"));
    }

    /** The cell asks for a line. */
    synchronized void ask(String id) {
        flush();
        wire.send(message("input_request").append(",\"id\":\"").append(id).append("\",\"prompt\":\"\",\"password\":false}"));
    }

    /** Why the cell failed. */
    synchronized void failure(Failure failure) {
        flush();
        StringBuilder message = message("error").append(",\"kind\":\"").append(failure.kind()).append("\",\"ename\":");
        Json.quote(failure.name(), message);
        message.append(",\"evalue\":");
        Json.quote(failure.value(), message);
        message.append(",\"traceback\":");
        quoteAll(failure.traceback(), message);
        wire.send(message.append('}'));
    }

    /** The answer to anything but an execution; a name of null means that all went well. */
    synchronized void answer(Object id, String name, String value) {
        flush();
        StringBuilder message = new StringBuilder("{\"type\":\"reply\",\"parent\":");
        Json.quote(String.valueOf(id), message);
        message.append(",\"status\":\"").append(name == null ? "ok" : "error").append('"');
        if (name != null) {
            message.append(",\"ename\":");
            Json.quote(name, message);
            message.append(",\"evalue\":");
            Json.quote(String.valueOf(value), message);
        }
        wire.send(message.append('}'));
    }

    /** The answer to a question. */
    synchronized void answer(Object id, Map<String, Object> answer) {
        flush();
        Map<String, Object> reply = new LinkedHashMap<>();
        reply.put("type", "reply");
        reply.put("parent", id);
        reply.put("status", "ok");
        reply.putAll(answer);
        StringBuilder message = new StringBuilder();
        Json.write(reply, message);
        wire.send(message);
    }

    private StringBuilder message(String type) {
        Instant now = Instant.now();
        long time = now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
        return new StringBuilder("{\"type\":\"").append(type).append("\",\"parent\":").append(parent)
                .append(",\"time\":").append(time);
    }

    private static void quoteAll(List<String> lines, StringBuilder into) {
        into.append('[');
        for (String line : lines) {
            if (into.charAt(into.length() - 1) != '[') {
                into.append(',');
            }
            Json.quote(line, into);
        }
        into.append(']');
    }
}
