# Raises a limit above what the sandbox was given.
# Held by: capabilities, own users
# Needs: the right to raise limits


def attempt():
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (most * 2, most * 2))
    return f"may lock {most * 2} bytes"


try:
    attack(attempt)
except ValueError as error:
    held(error)
