# Makes a file that not even its owner can remove.
# Held by: capabilities, own users


def attempt():
    import fcntl
    import tempfile

    FS_IOC_SETFLAGS, FS_IMMUTABLE_FL = 0x40086602, 0x10
    file, path = tempfile.mkstemp(dir="/root")
    fcntl.ioctl(file, FS_IOC_SETFLAGS, struct.pack("i", FS_IMMUTABLE_FL))
    fcntl.ioctl(file, FS_IOC_SETFLAGS, struct.pack("i", 0))
    os.unlink(path)
    return "made a file immutable"


attack(attempt)
