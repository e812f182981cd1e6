# Opens the memory of the machine. A kernel without it says so only to whoever could have opened it.
# Held by: capabilities, own users


def attempt():
    import stat

    path = "/dev/made-by-an-attack-memory"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 1))
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        return "opened device 1:1"
    finally:
        os.unlink(path)


attack(attempt, reached={errno.ENXIO})
