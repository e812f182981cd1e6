# Pings itself and never reads the answers.


def fill():
    pinging = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    enlarge(pinging)
    echo = b"\x08" + bytes(7) + b"x" * 60000
    for _ in range(300):
        try:
            pinging.sendto(echo, ("127.0.0.1", 0))
        except BlockingIOError:
            break
    return pinging


hoard(fill)
