# Reads the memory of the agent with the call that is made for it.
# Held by: capabilities


def attempt():
    buffer = ctypes.create_string_buffer(4)
    local = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(buffer), 4), 16)
    # Nothing is ever mapped there, which only somebody who may look is told.
    remote = ctypes.create_string_buffer(struct.pack("QQ", 16, 4), 16)
    return call("process_vm_readv", agent(), local, 1, remote, 1, 0)


attack(attempt, reached={errno.EFAULT})
