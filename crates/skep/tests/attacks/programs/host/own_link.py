# Reaches the machine over IPv6 on the link, where it needs no address.
# Held by: no ipv6, closed machine


def attempt():
    import time

    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        sender.settimeout(1)
        link = socket.if_nametoindex("eth0")
        last = None
        # An address on the link is checked for a second before it can be used.
        for _ in range(8):
            try:
                sender.sendto(b"who are you", ("ff02::1", int(given("PORT")), 0, link))
                answer, source = sender.recvfrom(100)
                return f"{source[0]} says {answer!r}"
            except OSError as error:
                last = error
                time.sleep(0.5)
        raise last


attack(attempt)
