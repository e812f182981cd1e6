"""What every program that fills queues of sockets starts with. The harness puts `attack.py` in front."""

import resource
import time

# More than the sockets of any sandbox that the suite makes may hold.
ENOUGH = 400 << 20
# Whoever ends sandboxes for it has done so in this time.
HOLD_SECONDS = 10
SO_RCVBUF = 8


def waiting():
    """What the kernel says waits in the sockets of this network."""
    total = 0
    for name in ("icmp", "tcp", "udp"):
        with open("/proc/net/" + name) as file:
            rows = [line.split()[4].split(":") for line in file.readlines()[1:]]
        total += sum(int(queue, 16) for row in rows for queue in row)
    with open("/proc/net/netlink") as file:
        return total + sum(int(line.split()[4]) for line in file.readlines()[1:])


def enlarge(listener):
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUF, 64 << 20)
    listener.setblocking(False)


def hoard(fill):
    """Fills sockets until enough waits in them, and holds it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kept = []
    while len(kept) < 8000:
        kept.append(fill())
        if len(kept) % 8 == 0 and waiting() >= ENOUGH:
            time.sleep(HOLD_SECONDS)
            escaped(f"{waiting() >> 20} MiB in {len(kept)} sockets")
    held(f"no more than {waiting() >> 20} MiB in {len(kept)} sockets")
