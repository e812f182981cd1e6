# Crashes, and has the kernel write or send its memory somewhere.
# Held by: no core dumps


def attempt():
    import resource
    import signal
    import tempfile

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ValueError:
        pass
    child = os.fork()
    if child == 0:
        os.chdir(tempfile.mkdtemp())
        os.kill(os.getpid(), signal.SIGSEGV)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return "its memory was dumped" if os.WCOREDUMP(status) else None


attack(attempt)
