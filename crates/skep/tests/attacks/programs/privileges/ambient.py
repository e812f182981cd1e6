# Takes capabilities into the set that survives the execution of programs.
# Held by: capabilities


def attempt():
    PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAPABILITY_VERSION = 47, 2, 0x20080522
    everything = 0xFFFFFFFF
    head = ctypes.create_string_buffer(struct.pack("Ii", CAPABILITY_VERSION, 0), 8)
    held_now = int([line for line in open("/proc/self/status") if line.startswith("CapPrm")][0].split()[1], 16)
    wanted = held_now | 1 << CAP_SYS_ADMIN
    low, high = wanted & everything, wanted >> 32
    sets = ctypes.create_string_buffer(struct.pack("6I", low, low, low, high, high, high), 24)
    call("capset", head, sets)
    if libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ambient")
    return "keeps the capability to administer"


attack(attempt)
