# Takes huge pages, which the operator has set aside and no limit of memory counts.
# Held by: filter


def attempt():
    import mmap

    MFD_HUGETLB = 4
    MAP_HUGETLB = 0x40000
    # A file of them can be made also where none is set aside.
    file = call("memfd_create", b"huge", MFD_HUGETLB)
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB
        mmap.mmap(-1, 2 << 20, flags=flags)[0] = 1
        return "took a huge page"
    except OSError:
        return f"a file of huge pages, {file}"


attack(attempt)
