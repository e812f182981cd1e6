# Stops a fork of the zygote while it has rights that the sandbox does not have.
# Control: a zygote that enters the sandbox first

import signal


def look(number):
    if found := rights(number):
        try:
            os.kill(number, signal.SIGSTOP)
            with open(f"/proc/{number}/stat") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
            os.kill(number, signal.SIGCONT)
        except OSError:
            return None
        if state == "T":
            return f"process {number} has {found:x} and stood still"


while_kernels_come(look)
