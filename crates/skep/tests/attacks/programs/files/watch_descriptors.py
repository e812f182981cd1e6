# Has the file API watch its own descriptors.
# Control: a file API that opens what it is told

attack(lambda: ask_agent("filesystem.Filesystem/CreateWatcher", path="/proc/self/fd"))
