"""Lets a suite resolve names below the server's domain, and no others.

The server answers for its domain on a port of its own, but a C library asks port 53 only. So a small
forwarder listens there on a loopback address of its own, and the suite sees a `resolv.conf` that names it,
in a mount namespace that ends with the suite.
"""

import contextlib
import os
import pathlib
import random
import socket
import threading

ENTER = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'


@contextlib.contextmanager
def resolved_by(server, folder):
    """What to put before a command so that `server`, an `address:port`, resolves its names."""
    address, port = server.rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        own = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}.{random.randint(1, 254)}"
        asked.bind((own, 53))
        threading.Thread(target=forward, args=(asked, (address, int(port))), daemon=True).start()
        file = pathlib.Path(folder, "resolv.conf")
        file.write_text(f"nameserver {own}\noptions attempts:1\n")
        as_root = [] if os.geteuid() == 0 else ["sudo", "--preserve-env"]
        yield [*as_root, "unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, str(file)]


def forward(asked, server):
    """Hands each question on, one at a time, until the socket is closed."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(2)
        while True:
            try:
                question, client = asked.recvfrom(4096)
            except OSError:
                return
            with contextlib.suppress(OSError):
                asking.sendto(question, server)
                answer = asking.recv(4096)
                while answer[:2] != question[:2]:
                    answer = asking.recv(4096)
                asked.sendto(answer, client)
