# Has the agent's own executable, which is the machine's, run in the sandbox.
# Control: a file API that opens what it is told


def attempt():
    said = start_process("/", "/proc/self/exe", "--version")
    return f"it says {said}" if said else None


attack(attempt)
