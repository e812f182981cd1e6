# Keeps memory in buffers of connections to itself, which is the machine's unless somebody counts it.
# Held by: counted sockets
# Needs: cgroup v1

# Far more than sockets may hold in a sandbox of any size that the suite makes.
ENOUGH = 160 << 20


def attempt():
    listener = socket.create_server(("127.0.0.1", 0))
    piece = b"x" * (1 << 20)
    kept, held_back = [], 0
    while held_back < ENOUGH and len(kept) < 400:
        sender = socket.socket()
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        sender.connect(listener.getsockname())
        sender.setblocking(False)
        kept.append((sender, listener.accept()[0]))
        try:
            for _ in range(16):
                held_back += sender.send(piece)
        except BlockingIOError:
            pass
    sockets = f"{held_back >> 20} MiB in {len(kept)} connections"
    if held_back < ENOUGH:
        held(sockets)
    return sockets


attack(attempt)
