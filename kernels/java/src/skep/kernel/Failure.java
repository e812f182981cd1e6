package skep.kernel;

import java.util.List;

/** Why a cell failed, as the protocol has it. */
record Failure(String kind, String name, String value, List<String> traceback) {
    static Failure interrupted() {
        return new Failure("interrupted", "KeyboardInterrupt", "", List.of());
    }

    static Failure request(String name, String value) {
        return new Failure("request", name, value, List.of());
    }
}
