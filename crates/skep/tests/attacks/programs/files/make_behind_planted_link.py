# Plants a link for an innocent caller of the file API, which leads into its descriptors.
# Control: a file API that opens what it is told

import tempfile


def attempt(way):
    link = os.path.join(tempfile.mkdtemp(), "innocent")
    os.symlink(way, link)
    if ask_agent("filesystem.Filesystem/MakeDir", path=f"{link}/attack-{os.getpid()}") is not None:
        return "it made a folder there"


attack(lambda: behind_descriptors(attempt))
