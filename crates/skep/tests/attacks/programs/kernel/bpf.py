# Loads something into the kernel's own machine.
# Held by: filter, capabilities, own users

BPF_MAP_CREATE, ARRAY = 0, 2
attributes = ctypes.create_string_buffer(struct.pack("5I", ARRAY, 4, 4, 1, 0), 72)
attack(lambda: f"a map, descriptor {call('bpf', BPF_MAP_CREATE, attributes, 72)}")
