"""`python3 -I -S skep_bash --socket-fd N`: one bash for one peer."""

from __future__ import annotations

import os
import sys

if __package__ in (None, ""):
    # Started as a folder: the search path has the folder itself, and needs the one around it.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import socket

from skep_bash.server import Server


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "--socket-fd" or not arguments[1].isdigit():
        print("usage: skep_bash --socket-fd N", file=sys.stderr)
        return 2
    # A copy, which nothing that is started inherits.
    connection = socket.socket(fileno=os.dup(int(arguments[1])))
    return Server(connection).run()


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
