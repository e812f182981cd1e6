# Opens a file by its number instead of its name, past every directory above it.
# Held by: filter, capabilities, own users


def attempt():
    path = "/tmp/skep-attack-handle"
    open(path, "w").close()
    # Two numbers and the handle itself; the root may be one that gives no handles.
    for place in [path, "/dev/shm", "/run"]:
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
        identity = ctypes.c_int()
        try:
            call("name_to_handle_at", AT_FDCWD, place.encode(), handle, ctypes.byref(identity), 0)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                continue
            raise
        directory = os.open(os.path.dirname(place) or "/", os.O_RDONLY)
        anywhere = os.open(place, os.O_RDONLY)
        return f"opened {place} by handle, descriptor {call('open_by_handle_at', anywhere, handle, os.O_RDONLY)}"
    return None


attack(attempt)
