# Opens the ring through which calls are made that no filter sees.
# Held by: filter

parameters = ctypes.create_string_buffer(120)
attack(lambda: f"a ring, descriptor {call('io_uring_setup', 1, parameters)}")
