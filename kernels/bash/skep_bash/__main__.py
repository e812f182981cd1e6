"""`python3 -I -S skep_bash/__main__.py --socket-fd N`: one bash for one peer.

To name the file saves what `python3 skep_bash` imports to find it. Nothing is imported that could be done without:
it is half of the time that a kernel takes to start.
"""

from __future__ import annotations

import os
import sys

if __package__ in (None, ""):
    # Started as a file or a folder: the search path needs what is around the package.
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from skep_bash.server import Server


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "--socket-fd" or not arguments[1].isdigit():
        print("usage: skep_bash --socket-fd N", file=sys.stderr)
        return 2
    # A copy, which nothing that is started inherits.
    return Server(os.dup(int(arguments[1]))).run()


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
