# Sends to nobody and never reads the errors, which are kept because they were asked for.


def fill():
    IP_RECVERR = 11
    nobody = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    nobody.bind(("127.0.0.1", 0))
    address = nobody.getsockname()
    nobody.close()
    sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    enlarge(sending)
    sending.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
    for _ in range(4000):
        try:
            sending.sendto(b"x" * 500, address)
        except OSError:
            pass
    return sending


hoard(fill)
