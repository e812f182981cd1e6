package skep.kernel;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import jdk.jshell.execution.DirectExecutionControl;
import jdk.jshell.spi.ExecutionControl;

/** Runs compiled snippets in this process and on the thread that asks. */
final class Control extends DirectExecutionControl {
    private final Object lock = new Object();
    private Thread running;
    private boolean interrupted;
    private String text;

    @Override
    public void load(ClassBytecodes[] classes) throws ClassInstallException, NotImplementedException, EngineTerminationException {
        ClassBytecodes[] changed = new ClassBytecodes[classes.length];
        for (int index = 0; index < classes.length; index++) {
            changed[index] = new ClassBytecodes(classes[index].name(), Interruption.instrument(classes[index].bytecodes()));
        }
        super.load(changed);
    }

    @Override
    protected String invoke(Method snippet) throws Exception {
        try {
            enter();
            Object value = snippet.invoke(null);
            // Still part of the cell, because what toString does is the user's code.
            text = value == null ? null : show(value);
            return "";
        } catch (InvocationTargetException failed) {
            if (failed.getCause() instanceof Interruption.Stop || wasInterruptedIn(failed.getCause())) {
                throw new StoppedException();
            }
            throw failed;
        } catch (Interruption.Stop stopped) {
            throw new StoppedException();
        } finally {
            leave();
        }
    }

    private static String show(Object value) throws InvocationTargetException {
        try {
            return value.getClass().isArray() ? valueString(value) : String.valueOf(value);
        } catch (Interruption.Stop stopped) {
            throw stopped;
        } catch (Throwable failed) {
            throw new InvocationTargetException(failed);
        }
    }

    /** Code that waits ends with whatever its library makes of an interrupt, mostly wrapped. */
    private boolean wasInterruptedIn(Throwable failure) {
        if (!isInterrupted()) {
            return false;
        }
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof InterruptedException
                    || cause instanceof Interruption.Stop
                    || cause instanceof java.io.InterruptedIOException
                    || cause instanceof java.nio.channels.ClosedByInterruptException) {
                return true;
            }
        }
        return false;
    }

    private void enter() throws StoppedException {
        synchronized (lock) {
            text = null;
            if (interrupted) {
                throw new StoppedException();
            }
            running = Thread.currentThread();
        }
    }

    private void leave() {
        synchronized (lock) {
            running = null;
            Interruption.clear();
        }
    }

    /** A cell begins: interrupts before it do not count. */
    void begin() {
        synchronized (lock) {
            interrupted = false;
            text = null;
        }
    }

    boolean isInterrupted() {
        synchronized (lock) {
            return interrupted;
        }
    }

    /** What the last snippet's value looks like; null if it has none. */
    String text() {
        return text;
    }

    @Override
    public void stop() {
        synchronized (lock) {
            interrupted = true;
            if (running != null) {
                Interruption.stop(running);
            }
        }
    }

    /** Lets JShell find this object. */
    static final class Provider implements jdk.jshell.spi.ExecutionControlProvider {
        private final Control control;

        Provider(Control control) {
            this.control = control;
        }

        @Override
        public String name() {
            return "skep";
        }

        @Override
        public ExecutionControl generate(jdk.jshell.spi.ExecutionEnv environment, java.util.Map<String, String> parameters) {
            return control;
        }
    }
}
