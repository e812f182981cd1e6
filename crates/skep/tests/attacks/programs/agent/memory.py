# Reads the memory of the agent.
# Held by: capabilities


def attempt():
    with open(f"/proc/{agent()}/maps") as maps:
        start = int(next(maps).split("-")[0], 16)
    with open(f"/proc/{agent()}/mem", "rb", 0) as memory:
        memory.seek(start)
        return memory.read(4)


attack(attempt)
