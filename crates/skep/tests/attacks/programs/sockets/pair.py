# Asks for a pair of sockets of the audit's family, which the kernel makes before it refuses to pair them.
# Held by: filter

NETLINK_AUDIT = 9


def attempt():
    pair = (ctypes.c_int * 2)()
    call("socketpair", socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_AUDIT, pair)
    return "a pair of sockets to the kernel"


attack(attempt, reached={errno.EOPNOTSUPP})
