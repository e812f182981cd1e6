# Has the file API remove what lies behind one of its own descriptors.
# Control: a file API that opens what it is told


def attempt(way):
    path = f"{way}/attack-{os.getpid()}"
    ask_agent("filesystem.Filesystem/MakeDir", path=path)
    before = ask_agent("filesystem.Filesystem/Stat", path=path)
    ask_agent("filesystem.Filesystem/Remove", path=path)
    if before and not ask_agent("filesystem.Filesystem/Stat", path=path):
        return "it removed a folder there"


attack(lambda: behind_descriptors(attempt))
