# Has a socket keep many options for what it will send, in memory that no cgroup counts.
# Held by: socket limits
# Needs: limits of one network's sockets

SIZE = 32 << 10


def attempt():
    IPV6_PKTINFO, IPV6_2292PKTOPTIONS = 50, 6
    option = struct.pack("QII24x", 36, socket.IPPROTO_IPV6, IPV6_PKTINFO)
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as keeper:
        keeper.setsockopt(socket.IPPROTO_IPV6, IPV6_2292PKTOPTIONS, option * (SIZE // len(option)))
    return f"{SIZE >> 10} KiB at a socket"


attack(attempt)
