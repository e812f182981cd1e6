"""IPython's shell alone: forked from a parent that has it ready, JSON over a Unix socket, nothing else.

`execute` runs `1` and waits for its result.
"""

import os
import socket

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


class Kept(DisplayHook):
    """Keeps the result instead of printing it."""

    result = None

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        Kept.result = format_dict

    def finish_displayhook(self):
        self._is_active = False


class Shell(InteractiveShell):
    displayhook_class = Kept


def child(shell, connection):
    lines = connection.makefile("rb")
    for line in lines:
        Kept.result = None
        shell.run_cell(json.loads(line)["code"], store_history=True)
        connection.sendall(json.dumps({"result": Kept.result}).encode() + b"\n")


def main():
    config = Config()
    # Its database is written by a thread, which a fork does not take along.
    config.HistoryManager.enabled = False
    shell = Shell.instance(config=config)
    shell.run_cell("1")
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        child(shell, theirs)
        os._exit(0)
    theirs.close()
    lines = ours.makefile("rb")

    def execute():
        ours.sendall(json.dumps({"code": "1"}).encode() + b"\n")
        answer = json.loads(lines.readline())
        if answer["result"] != {"text/plain": "1"}:
            raise RuntimeError(f"1 gave {answer}")

    serve({"execute": execute})
    lines.close()
    ours.close()
    os.waitpid(pid, 0)


main()
