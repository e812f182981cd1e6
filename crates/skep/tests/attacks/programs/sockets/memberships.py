# Joins one socket to many groups. What the kernel keeps for that no cgroup counts.
# Held by: socket limits

ENOUGH = 12


def attempt():
    joined = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as member:
        try:
            for number in range(ENOUGH):
                group = socket.inet_aton(f"239.1.2.{number}") + socket.inet_aton("127.0.0.1")
                member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
                joined += 1
        except OSError as error:
            held(f"{errno.errorcode[error.errno]} after {joined} groups")
    return f"{joined} groups"


attack(attempt)
