# Connects to itself, sends, and never accepts. Descriptors of the senders are closed, so few are needed.


def fill():
    listener = socket.socket()
    enlarge(listener)
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    for _ in range(64):
        with socket.socket() as sender:
            sender.connect(listener.getsockname())
            sender.setblocking(False)
            try:
                for _ in range(64):
                    sender.send(b"x" * 65000)
            except BlockingIOError:
                pass
    return listener


hoard(fill)
