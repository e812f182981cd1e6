"""`python -m skep_kernel`: a kernel for one peer, started without a zygote."""

from __future__ import annotations

import argparse
import os
import socket
import sys

from . import prepare, serve


def open_socket(arguments: argparse.Namespace) -> socket.socket:
    """The connected socket that the command line names."""
    if arguments.socket_fd is not None:
        # A copy: the kernel gives descriptors 0, 1 and 2 another meaning, and what it starts must not inherit this one.
        return socket.socket(fileno=os.dup(arguments.socket_fd))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(arguments.connect)
    return connection


def main() -> None:
    parser = argparse.ArgumentParser(prog="skep_kernel", description="Skep's Python kernel")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket-fd", type=int, metavar="N", help="inherited descriptor of a connected socket")
    where.add_argument("--connect", metavar="PATH", help="path of a listening Unix socket")
    parser.add_argument("--preload", action="append", default=[], metavar="MODULE", help="import before the first cell")
    arguments = parser.parse_args()
    if not sys.flags.safe_path:
        # `-m` put the directory of this moment first in the search path; serving puts in the current one.
        del sys.path[0]
    prepare(arguments.preload)
    connection = open_socket(arguments)
    status = serve(connection)
    # Not sys.exit: a thread the user forgot would keep the process, and the peer already has our farewell.
    os._exit(status)


if __name__ == "__main__":
    main()
