# Takes the capability that marks the agent.
# Held by: capabilities


def attempt():
    WAKE_ALARM = 35
    may = effective([os.path.realpath(sys.executable)])
    return f"may {may:x}" if may >> WAKE_ALARM & 1 else None


attack(attempt)
