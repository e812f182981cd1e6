# Keeps keys for peers at a connection, in memory that no cgroup counts.
# Held by: filter


def attempt():
    IPPROTO_TCP, TCP_MD5SIG = 6, 14
    peer = struct.pack("=HH", socket.AF_INET, 0) + socket.inet_aton("127.0.0.1")
    key = struct.pack("=128sBBHI80s", peer, 0, 0, 4, 0, b"word")
    with socket.socket() as connection:
        connection.setsockopt(IPPROTO_TCP, TCP_MD5SIG, key)
    return "a key for a peer"


attack(attempt)
