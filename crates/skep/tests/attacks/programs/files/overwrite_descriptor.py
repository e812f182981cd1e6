# Has the file API write into one of its own descriptors.
# Control: a file API that opens what it is told


def attempt():
    import tempfile

    link = os.path.join(tempfile.mkdtemp(), "innocent.txt")
    os.symlink("/proc/self/fd/1", link)
    ask_files("POST", "/files", body=b"x", query={"path": link, "username": "root"})
    return "it wrote to its own descriptor"


attack(attempt)
