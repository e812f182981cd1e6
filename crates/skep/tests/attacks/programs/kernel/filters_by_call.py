# Has the kernel translate a filter of system calls, by the newer way, with a listener that holds up who is under it.
# Held by: filter


def attempt():
    SET_MODE_FILTER, NEW_LISTENER = 1, 8
    listener = call("seccomp", SET_MODE_FILTER, NEW_LISTENER, harmless_filter())
    return f"a filter of its own, listener {listener}"


attack(lambda: in_child(attempt))
