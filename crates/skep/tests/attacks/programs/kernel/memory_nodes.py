# Asks where the memory of the machine lies.
# Held by: filter


def attempt():
    mode = ctypes.c_int()
    call("get_mempolicy", ctypes.byref(mode), None, 0, None, 0)
    return f"policy {mode.value}"


attack(attempt)
