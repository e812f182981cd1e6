# Makes sockets that are asked for routes, which take more of the kernel's memory than is charged for them.

SOCKETS = 60_000
OF_ONE = 15_000

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
told, telling = os.pipe()
for _ in range(SOCKETS // OF_ONE):
    if os.fork() == 0:
        for _ in range(OF_ONE):
            asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
            asking.bind((0, 0))
            asking.detach()
        os.write(telling, b"x")
        time.sleep(3 * HOLD_SECONDS)
        os._exit(0)
    os.read(told, 1)
time.sleep(HOLD_SECONDS)
escaped(f"{SOCKETS} sockets")
