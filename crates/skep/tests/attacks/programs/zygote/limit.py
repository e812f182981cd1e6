# Limits the memory of a fork of the zygote while it has rights that the sandbox does not have.
# Control: a zygote that enters the sandbox first

import resource


def look(number):
    if found := rights(number):
        try:
            resource.prlimit(number, resource.RLIMIT_CORE, (0, 0))
        except OSError:
            return None
        return f"process {number} has {found:x} and was limited"


while_kernels_come(look)
