# Puts a file of the template out of memory, so that a later fault tells whether a neighbour has used it since.
# Held by: filter


def attempt():
    with open(unused_source(0), "rb") as file:
        file.read()
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return faults(file)


attack(attempt)
