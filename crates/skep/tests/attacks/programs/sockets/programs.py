# Has the kernel translate a program for a socket, into memory that the machine has one amount of for all.
# Held by: filter


def attempt():
    SO_ATTACH_FILTER = 26
    take_all = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0xFFFFFFFF))
    program = struct.pack("HL", 1, ctypes.addressof(take_all))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
    return "a program at a socket"


attack(attempt)
