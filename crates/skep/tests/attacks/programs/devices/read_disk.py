# Reads a disk of the machine through a node that is there.
# Held by: minimal dev, own users


def attempt():
    with open(given("DEVICE"), "rb") as disk:
        return "read a disk" if SENTINEL.encode() in disk.read(512) else None


attack(attempt)
