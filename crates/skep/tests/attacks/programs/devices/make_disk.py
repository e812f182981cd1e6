# Makes a node for a disk of the machine and reads it.
# Held by: capabilities, own users


def attempt():
    import stat

    number = os.makedev(int(given("MAJOR")), int(given("MINOR")))
    path = "/dev/disk-of-the-machine"
    os.mknod(path, stat.S_IFBLK | 0o600, number)
    try:
        with open(path, "rb") as disk:
            return disk.read(32) if SENTINEL.encode() in disk.read(512) else None
    finally:
        os.unlink(path)


attack(attempt)
