# Lowers the limit of crash dumps to zero, with which the kernel starts the machine's crash handler, outside, at a crash inside.
# Held by: filter


def attempt():
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return "the limit is zero" if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0) else None


attack(attempt)
