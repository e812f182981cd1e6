# Hides the family of a pair of sockets behind bits that the kernel ignores.
# Held by: filter


def attempt():
    pair = (ctypes.c_int * 2)()
    call("socketpair", (1 << 32) | socket.AF_NETLINK, (1 << 32) | socket.SOCK_RAW, 0, pair)
    return "a pair of sockets to the kernel"


attack(attempt, reached={errno.EOPNOTSUPP})
