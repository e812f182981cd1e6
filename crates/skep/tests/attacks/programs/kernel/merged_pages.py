# Has the kernel join its pages with equal ones of others, so that a slow write tells what those hold.
# Held by: filter


def attempt():
    import mmap

    MADV_MERGEABLE = 12
    pages = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    call("madvise", ctypes.addressof(ctypes.c_char.from_buffer(pages)), len(pages), MADV_MERGEABLE)
    return "pages are offered to be joined"


attack(attempt)
