# Opens the device through which network interfaces are made by programs.
# Held by: capabilities, own users


def attempt():
    import stat

    path = "/dev/made-by-an-attack-tunnel"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(10, 200))
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        return "opened device 10:200"
    finally:
        os.unlink(path)


attack(attempt)
