# Asks how much of a file of the template is in memory, which tells what its neighbours use.
# Held by: filter


def attempt():
    file = os.open("/usr/bin/env", os.O_RDONLY)
    whole = ctypes.create_string_buffer(struct.pack("QQ", 0, 0), 16)
    pages = ctypes.create_string_buffer(40)
    call("cachestat", file, whole, pages, 0)
    return f"{struct.unpack_from('Q', pages)[0]} pages are"


attack(attempt)
