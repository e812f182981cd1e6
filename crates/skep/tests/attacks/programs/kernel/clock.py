# Sets the machine's clock, by nothing at all.
# Held by: filter, capabilities, own users

ADJ_SETOFFSET = 0x100
change = ctypes.create_string_buffer(struct.pack("I", ADJ_SETOFFSET), 208)
attack(lambda: f"set the clock, state {call('adjtimex', change)}")
