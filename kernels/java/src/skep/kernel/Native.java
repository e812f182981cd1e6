package skep.kernel;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** What only the C library can change of this process. Loaded when it is first needed, because that takes a while. */
final class Native {
    private static final MethodHandle CHDIR = find("chdir", ValueLayout.ADDRESS);
    private static final MethodHandle SETENV = find("setenv", ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.JAVA_INT);
    private static final MethodHandle UNSETENV = find("unsetenv", ValueLayout.ADDRESS);

    private Native() {}

    private static MethodHandle find(String name, MemoryLayout... parameters) {
        Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(
                linker.defaultLookup().findOrThrow(name), FunctionDescriptor.of(ValueLayout.JAVA_INT, parameters));
    }

    /** Goes to a folder; says whether that was possible. */
    static boolean chdir(String path) {
        try (Arena arena = Arena.ofConfined()) {
            return (int) CHDIR.invokeExact(arena.allocateFrom(path)) == 0;
        } catch (Throwable impossible) {
            throw new LinkageError("cannot call chdir", impossible);
        }
    }

    /** Sets a variable for child processes; null removes it. */
    static void setenv(String name, String value) {
        try (Arena arena = Arena.ofConfined()) {
            int failed = value == null
                    ? (int) UNSETENV.invokeExact(arena.allocateFrom(name))
                    : (int) SETENV.invokeExact(arena.allocateFrom(name), arena.allocateFrom(value), 1);
            if (failed != 0) {
                throw new OutOfMemoryError("no memory for the environment");
            }
        } catch (Error error) {
            throw error;
        } catch (Throwable impossible) {
            throw new LinkageError("cannot call setenv", impossible);
        }
    }
}
