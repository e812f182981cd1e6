# Writes the attributes by which the overlay knows its own files.
# Held by: capabilities, own users


def attempt():
    import tempfile

    folder = tempfile.mkdtemp(dir="/root")
    os.setxattr(folder, "trusted.skep-attack", b"y")
    return "wrote a trusted attribute"


attack(attempt)
