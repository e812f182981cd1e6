package skep.kernel;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/**
 * Environment variables in layers: process, sandbox, context, execution.
 *
 * <p>By contract they are system properties. They are also what {@code System.getenv} says and what child processes get: the
 * virtual machine reads its environment once into a map, and that map is changed here, and the C library's beside it.
 */
final class Environment {
    private static final List<String> LAYERS = List.of("sandbox", "context");

    private final Map<String, String> process = Map.copyOf(System.getenv());
    private final Map<String, Map<String, String>> layers = new HashMap<>();
    private final Map<Object, Object> machine;
    private final Method makeName;
    private final Method makeValue;

    /** A name or value that no environment can hold. Nothing was changed. */
    static final class InvalidEnvironment extends Exception {
        private static final long serialVersionUID = 1;

        InvalidEnvironment(String reason) {
            super(reason);
        }
    }

    /** What a variable was: its property and its place in the environment, null for none. */
    private record Saved(String property, String variable) {}

    @SuppressWarnings("unchecked")
    Environment() throws ReflectiveOperationException {
        Class<?> holder = Class.forName("java.lang.ProcessEnvironment");
        Field field = holder.getDeclaredField("theEnvironment");
        field.setAccessible(true);
        machine = (Map<Object, Object>) field.get(null);
        makeName = Class.forName("java.lang.ProcessEnvironment$Variable").getDeclaredMethod("valueOf", String.class);
        makeName.setAccessible(true);
        makeValue = Class.forName("java.lang.ProcessEnvironment$Value").getDeclaredMethod("valueOf", String.class);
        makeValue.setAccessible(true);
        for (String layer : LAYERS) {
            layers.put(layer, Map.of());
        }
        for (Map.Entry<String, String> variable : process.entrySet()) {
            // What the virtual machine itself has set, it needs.
            System.getProperties().putIfAbsent(variable.getKey(), variable.getValue());
        }
    }

    /** Replaces a lasting layer. Only variables whose value it changes are touched. */
    void setLayer(Object layer, Object given) throws InvalidEnvironment, ReflectiveOperationException {
        if (!LAYERS.contains(layer)) {
            throw new InvalidEnvironment("there is no layer '" + layer + "'; the layers are sandbox, context");
        }
        Map<String, String> variables = checked(given);
        Map<String, String> before = effective();
        layers.put((String) layer, variables);
        Map<String, String> after = effective();
        Set<String> names = new HashSet<>(before.keySet());
        names.addAll(after.keySet());
        for (String name : names) {
            if (!Objects.equals(before.get(name), after.get(name))) {
                String value = after.getOrDefault(name, process.get(name));
                assign(name, new Saved(value, value));
            }
        }
    }

    /** Sets variables for one execution; what is returned restores them. */
    Map<String, Object> enter(Object given) throws InvalidEnvironment, ReflectiveOperationException {
        Map<String, Object> saved = new LinkedHashMap<>();
        for (Map.Entry<String, String> variable : checked(given).entrySet()) {
            String name = variable.getKey();
            saved.put(name, new Saved(System.getProperty(name), System.getenv(name)));
            assign(name, new Saved(variable.getValue(), variable.getValue()));
        }
        return saved;
    }

    /** Restores what was there before, whatever the cell did. */
    void leave(Map<String, Object> saved) throws ReflectiveOperationException {
        for (Map.Entry<String, Object> variable : saved.entrySet()) {
            assign(variable.getKey(), (Saved) variable.getValue());
        }
    }

    private void assign(String name, Saved value) throws ReflectiveOperationException {
        if (value.property() == null) {
            System.clearProperty(name);
        } else {
            System.setProperty(name, value.property());
        }
        Native.setenv(name, value.variable());
        Object key = makeName.invoke(null, name);
        if (value.variable() == null) {
            machine.remove(key);
        } else {
            machine.put(key, makeValue.invoke(null, value.variable()));
        }
    }

    private Map<String, String> effective() {
        Map<String, String> merged = new HashMap<>();
        for (String layer : LAYERS) {
            merged.putAll(layers.get(layer));
        }
        return merged;
    }

    private static Map<String, String> checked(Object given) throws InvalidEnvironment {
        Map<String, String> variables = new LinkedHashMap<>();
        if (given == null) {
            return variables;
        }
        if (!(given instanceof Map<?, ?> map)) {
            throw new InvalidEnvironment("the environment must be an object of strings");
        }
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            String name = (String) entry.getKey();
            if (!(entry.getValue() instanceof String value)) {
                throw new InvalidEnvironment("the value of '" + name + "' is not a string");
            }
            if (name.isEmpty() || name.indexOf('=') >= 0 || name.indexOf('\0') >= 0) {
                throw new InvalidEnvironment("'" + name + "' cannot be the name of an environment variable");
            }
            if (value.indexOf('\0') >= 0) {
                throw new InvalidEnvironment("the value of '" + name + "' contains a NUL character");
            }
            variables.put(name, value);
        }
        return variables;
    }
}
