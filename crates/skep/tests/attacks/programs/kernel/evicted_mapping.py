# Puts a file of the template, which is root's inside, out of memory through a mapping of it.
# Held by: filter


def attempt():
    import mmap

    MADV_PAGEOUT = 21
    with open(unused_source(1), "rb") as file:
        pages = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        sum(pages[start] for start in range(0, len(pages), mmap.PAGESIZE))
        call("madvise", ctypes.addressof(ctypes.c_char.from_buffer(pages)), len(pages), MADV_PAGEOUT)
        return faults(file)


attack(attempt)
