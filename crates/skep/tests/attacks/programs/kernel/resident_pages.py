# Asks which pages of a file of the template are in memory, which tells what its neighbours use.
# Held by: filter


def attempt():
    import mmap

    with open(sys.executable, "rb") as file:
        pages = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    length = len(pages)
    resident = ctypes.create_string_buffer((length + mmap.PAGESIZE - 1) // mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    call("mincore", start, length, resident)
    return f"{sum(page & 1 for page in resident.raw)} of {len(resident)} pages are"


attack(attempt)
