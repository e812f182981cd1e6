# Takes a loop device of the machine.
# Held by: capabilities, own users


def attempt():
    import stat

    path = "/dev/made-by-an-attack-loop_control"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(10, 237))
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        return "opened device 10:237"
    finally:
        os.unlink(path)


attack(attempt)
