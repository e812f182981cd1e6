# Makes a filesystem with the newer calls, which older filters do not know.
# Held by: filter, namespace limits, capabilities

FSCONFIG_CMD_CREATE = 6


def attempt():
    context = call("fsopen", b"tmpfs", 0)
    call("fsconfig", context, FSCONFIG_CMD_CREATE, None, None, 0)
    return f"made a filesystem, descriptor {call('fsmount', context, 0, 0)}"


attack(attempt)
