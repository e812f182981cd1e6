# Has the kernel load the module for bridges, which it does before it asks who wants it.
# Held by: filter


def attempt():
    import fcntl

    SIOCGIFBR, GET_VERSION = 0x8940, 0
    with socket.socket() as any_socket:
        version = fcntl.ioctl(any_socket, SIOCGIFBR, struct.pack("3L", GET_VERSION, 0, 0))
    return f"asked the module: {version!r}"


attack(attempt, reached=(errno.ENOPKG, errno.EOPNOTSUPP, errno.EINVAL, errno.EFAULT))
