# Writes into the log of the kernel.
# Held by: capabilities, own users


def attempt():
    import stat

    path = "/dev/made-by-an-attack-kernel_messages"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 11))
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        return "opened device 1:11"
    finally:
        os.unlink(path)


attack(attempt)
