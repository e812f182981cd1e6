# Makes a user namespace with a new process.
# Held by: filter, namespace limits

CLONE_NEWUSER, SIGCHLD = 0x10000000, 17


def attempt():
    child = call("clone", CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "a process in a new user namespace"


attack(attempt)
