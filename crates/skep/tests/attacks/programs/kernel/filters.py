# Has the kernel translate a filter of system calls, into memory that the machine has one amount of for all.
# Held by: filter


def attempt():
    PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
    program = harmless_filter()
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "a filter")
    return "a filter of its own"


attack(lambda: in_child(attempt))
