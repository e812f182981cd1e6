# Lowers a limit of the agent, by its own number or that of one of its threads, so that it has none left.
# Held by: filter


def attempt():
    import resource

    # Whatever was lowered could not be raised again; this one the agent does not need.
    limit, refused = resource.RLIMIT_MSGQUEUE, None
    for number in (agent(), *map(int, os.listdir(f"/proc/{agent()}/task"))):
        try:
            resource.prlimit(number, limit, (0, 0))
            return f"the limits of {number} are {resource.prlimit(number, limit)}"
        except OSError as error:
            refused = error
    raise refused


attack(attempt)
