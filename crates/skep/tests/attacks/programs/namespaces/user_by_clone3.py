# Makes a user namespace with the call whose flags no filter can read.
# Held by: filter, namespace limits

CLONE_NEWUSER, SIGCHLD = 0x10000000, 17


def attempt():
    arguments = ctypes.create_string_buffer(struct.pack("8Q", CLONE_NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0), 64)
    child = call("clone3", arguments, 64)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "a process in a new user namespace"


attack(attempt)
