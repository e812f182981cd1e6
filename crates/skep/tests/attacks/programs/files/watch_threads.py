# Has the file API watch its own threads, by a link that was planted.
# Control: a file API that opens what it is told

import tempfile


def attempt():
    link = os.path.join(tempfile.mkdtemp(), "innocent")
    os.symlink("/proc/thread-self/..", link)
    return ask_agent("filesystem.Filesystem/CreateWatcher", path=link)


attack(attempt)
