# Has the kernel compute, through sockets that load its modules.
# Held by: filter

SOCK_MAX = 11


def attempt():
    try:
        return socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET) and "a crypto socket"
    except OSError:
        # The kernel looks at the type first, and only then for somebody who knows the family.
        call("socket", socket.AF_ALG, SOCK_MAX, 0)


attack(attempt, reached={errno.EINVAL})
