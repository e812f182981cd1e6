# Joins groups of IPv6 without end: each takes memory of the kernel that no cgroup counts.
# Held by: filter, socket limits


def attempt():
    IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, LOOPBACK = 41, 20, 1
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as member:
        for number in range(100):
            group = bytes([0xFF, 0x12] + [0] * 12) + struct.pack(">H", number + 1)
            member.setsockopt(IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, group + struct.pack("=i", LOOPBACK))
    return "a hundred groups"


attack(attempt)
