package skep.kernel;

import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * {@code System.out} or {@code System.err}.
 *
 * <p>A class of its own, because then {@code println} writes text and line end one after the other. Clients of the contract expect the
 * first message to be the text alone.
 */
final class Printer extends PrintStream {
    Printer(Outlet outlet, int stream) {
        super(new Sink(outlet, stream), false, StandardCharsets.UTF_8);
    }

    private static final class Sink extends OutputStream {
        private final Outlet outlet;
        private final int stream;

        Sink(Outlet outlet, int stream) {
            this.outlet = outlet;
            this.stream = stream;
        }

        @Override
        public void write(int octet) {
            write(new byte[] {(byte) octet}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            outlet.write(stream, bytes, offset, length);
        }
    }
}
