# Signals a fork of the zygote while it has rights that the sandbox does not have.
# Control: a zygote that enters the sandbox first

import signal


def look(number):
    if found := rights(number):
        try:
            os.kill(number, signal.SIGCONT)
        except OSError:
            return None
        return f"process {number} has {found:x} and was signalled"


while_kernels_come(look)
