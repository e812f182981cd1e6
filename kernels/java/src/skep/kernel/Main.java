package skep.kernel;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.util.Map;
import sun.misc.Signal;

/** The kernel: one JShell for one peer, over one socket. */
public final class Main {
    /** Exit status when nobody reads any more. */
    static final int PEER_GONE = 76;

    /** The kernel and its version. */
    static final String NAME = "skep_java 0.1.0";

    private static final int PROTOCOL = 1;

    /** The descriptor that is read by whoever started us, if we do not say hello. */
    private static final int ERRORS = 4;

    private final Wire wire;
    private final Outlet outlet;
    private final Input input;
    private final Pump[] pumps = new Pump[2];
    private final Environment environment = new Environment();
    private final Cells cells;

    private Main(FileDescriptor socket) throws IOException, ReflectiveOperationException {
        wire = new Wire(socket);
        outlet = new Outlet(wire);
        input = new Input(wire, outlet);
        System.setIn(input);
        System.setOut(new Printer(outlet, 0));
        System.setErr(new Printer(outlet, 1));
        cells = new Cells();
        Runtime.getRuntime().addShutdownHook(new Thread(outlet::flush));
        Signal.handle(new Signal("INT"), signal -> cells.interrupt());
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("--train")) {
            Training.run();
            System.exit(0);
        }
        if (arguments.length != 2 || !arguments[0].equals("--socket-fd")) {
            System.err.println("usage: skep.kernel.Main --socket-fd N");
            System.exit(2);
        }
        Constructor<FileDescriptor> open = FileDescriptor.class.getDeclaredConstructor(int.class);
        open.setAccessible(true);
        Main kernel;
        try {
            kernel = new Main(open.newInstance(Integer.parseInt(arguments[1])));
        } catch (Throwable failed) {
            failed.printStackTrace(new PrintStream(new FileOutputStream(open.newInstance(ERRORS)), true));
            Runtime.getRuntime().halt(1);
            throw failed;
        }
        kernel.serve();
        System.exit(0);
    }

    private void serve() throws Exception {
        wire.send("{\"type\":\"hello\",\"protocol\":" + PROTOCOL + ",\"kernel\":\"" + NAME + "\",\"pid\":"
                + ProcessHandle.current().pid() + ",\"java\":\"" + Runtime.version().feature() + "\"}");
        // Only now, because the virtual machine itself may have written something already.
        for (int stream = 0; stream < pumps.length; stream++) {
            pumps[stream] = new Pump(outlet, stream);
        }
        for (Map<String, Object> request; (request = wire.receive()) != null; ) {
            Object id = request.get("id");
            Object type = request.get("type");
            if ("execute".equals(type) && id instanceof String name && request.get("code") instanceof String code) {
                execute(name, code, request.get("env"), Boolean.TRUE.equals(request.get("allow_stdin")));
            } else if (!"input_reply".equals(type)) {
                // An answer that comes here is late: the cell that asked waits no more.
                answer(id, type, request);
            }
            if ("shutdown".equals(type)) {
                return;
            }
        }
    }

    private void answer(Object id, Object type, Map<String, Object> request) throws ReflectiveOperationException {
        try {
            Map<String, Object> answer = cells.questions().answer(String.valueOf(type), request);
            if (answer != null) {
                outlet.answer(id, answer);
                return;
            }
            switch (String.valueOf(type)) {
                case "environment" -> environment.setLayer(request.get("layer"), request.get("variables"));
                case "chdir" -> {
                    if (!(request.get("path") instanceof String path)) {
                        throw new IllegalArgumentException("chdir needs a path");
                    }
                    Folder.enter(path);
                }
                case "shutdown" -> System.out.flush();
                default -> throw new IllegalArgumentException("there is no such request, or it lacks a string");
            }
            outlet.answer(id, null, null);
        } catch (Environment.InvalidEnvironment | IOException | IllegalArgumentException refused) {
            outlet.answer(id, refused.getClass().getSimpleName(), refused.getMessage());
        }
    }

    private void execute(String id, String code, Object variables, boolean mayAsk) throws Exception {
        cells.countUp();
        int count = cells.count();
        outlet.begin(id, count);
        Failure failure;
        try {
            Map<String, Object> saved = environment.enter(variables);
            input.begin(mayAsk);
            Cells.Outcome outcome = cells.run(code);
            input.end();
            environment.leave(saved);
            settle();
            failure = outcome.failure();
            if (outcome.value() != null) {
                outlet.result(outcome.value(), count);
            }
        } catch (Environment.InvalidEnvironment refused) {
            failure = Failure.request("InvalidEnvironment", refused.getMessage());
        }
        if (failure != null) {
            outlet.failure(failure);
        }
        outlet.end(count, failure != null);
    }

    private void settle() throws IOException {
        System.out.flush();
        System.err.flush();
        for (Pump pump : pumps) {
            pump.settle();
        }
    }
}
