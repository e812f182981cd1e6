# Asks for a protocol that hardly anybody uses or checks.
# Held by: filter

IPPROTO_UDPLITE = 136
IPPROTO_MPTCP = 262


def attempt():
    try:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM, IPPROTO_UDPLITE) and "UDP-Lite"
    except OSError:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP) and "multipath TCP"


attack(attempt)
