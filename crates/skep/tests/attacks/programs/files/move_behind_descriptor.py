# Has the file API move what lies behind one of its own descriptors.
# Control: a file API that opens what it is told


def attempt(way):
    source, destination = f"{way}/attack-{os.getpid()}", f"{way}/moved-{os.getpid()}"
    ask_agent("filesystem.Filesystem/MakeDir", path=source)
    if ask_agent("filesystem.Filesystem/Move", source=source, destination=destination) is not None:
        return "it moved a folder there"


attack(lambda: behind_descriptors(attempt))
