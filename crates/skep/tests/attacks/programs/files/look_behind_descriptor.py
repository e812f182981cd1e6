# Has the file API tell about, and read the attributes of, what lies behind one of its own descriptors.
# Control: a file API that opens what it is told


def attempt(way):
    if entry := ask_agent("filesystem.Filesystem/Stat", path=f"{way}/."):
        return f"it says {entry['entry']}"


attack(lambda: behind_descriptors(attempt))
