# Opens the device through which filesystems are made by programs.
# Held by: capabilities, own users


def attempt():
    import stat

    path = "/dev/made-by-an-attack-fuse"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(10, 229))
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        return "opened device 10:229"
    finally:
        os.unlink(path)


attack(attempt)
