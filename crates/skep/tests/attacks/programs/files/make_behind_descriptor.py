# Has the file API make a folder behind one of its own descriptors, which are cgroups of the machine.
# Control: a file API that opens what it is told


def attempt(way):
    if ask_agent("filesystem.Filesystem/MakeDir", path=f"{way}/attack-{os.getpid()}") is not None:
        return "it made a folder there"


attack(lambda: behind_descriptors(attempt))
