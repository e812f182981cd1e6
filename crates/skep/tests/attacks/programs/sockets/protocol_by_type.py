# Asks for types of sockets that stand for protocols which hardly anybody uses or checks.
# Held by: filter

SOCK_DCCP = 6


def attempt():
    for kind in (socket.SOCK_SEQPACKET, SOCK_DCCP, SOCK_DCCP | socket.SOCK_CLOEXEC):
        try:
            return f"a socket, {call('socket', socket.AF_INET, kind, 0)}"
        except OSError as error:
            last = error
    raise last


# The kernel has looked for somebody who knows the type, and has asked for a module.
attack(attempt, reached={errno.ESOCKTNOSUPPORT})
