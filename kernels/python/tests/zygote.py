"""A small zygote for the tests: prepares once, then forks a kernel for every socket it is sent."""

from __future__ import annotations

import os
import signal
import socket
import sys

import skep_kernel
from skep_kernel.shared_memory import share


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    skep_kernel.prepare(sys.argv[2:])
    share()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.send(b"prepared")
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            os._exit(skep_kernel.serve(socket.socket(fileno=descriptors[0])))
        os.close(descriptors[0])
        control.send(str(child).encode())


if __name__ == "__main__":
    main()
