# Has the kernel keep what it sends, for the time at which it left, in memory that no cgroup counts.
# Held by: filter, no copies


def attempt():
    SO_TIMESTAMPING, TRANSMITTED, REPORTED = 37, 1 << 1, 1 << 4
    return kept_copy(lambda sender: sender.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, TRANSMITTED | REPORTED))


attack(attempt)
