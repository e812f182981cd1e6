# Learns in which physical page its own memory lies.
# Held by: capabilities, own users


def attempt():
    page = ctypes.create_string_buffer(b"x" * 8192)
    with open("/proc/self/pagemap", "rb") as pages:
        pages.seek(ctypes.addressof(page) // 4096 * 8)
        (entry,) = struct.unpack("Q", pages.read(8))
    frame = entry & ((1 << 55) - 1)
    return f"frame {frame:#x}" if frame else None


attack(attempt)
