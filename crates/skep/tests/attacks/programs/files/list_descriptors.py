# Has the file API list its own descriptors and where they lead.
# Control: a file API that opens what it is told


def attempt():
    listed = ask_agent("filesystem.Filesystem/ListDir", path="/proc/self/fd")
    return listed and [entry.get("symlinkTarget") for entry in listed["entries"]]


attack(attempt)
