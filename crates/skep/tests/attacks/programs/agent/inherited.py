# Uses descriptors that the agent forgot to close.
# Control: a parent that leaves a descriptor open


def attempt():
    # One of the names is that of the list itself, and leads nowhere any more.
    found = [name for name in os.listdir("/proc/self/fd") if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}")]
    return f"descriptors {found}" if found else None


attack(attempt)
