# Counts what the processor does.
# Held by: filter

SOFTWARE, CPU_CLOCK, EXCLUDE_KERNEL_AND_HYPERVISOR = 1, 0, 1 << 5 | 1 << 6
attributes = ctypes.create_string_buffer(struct.pack("IIQQQQQ", SOFTWARE, 112, CPU_CLOCK, 0, 0, 0, EXCLUDE_KERNEL_AND_HYPERVISOR), 112)
attack(lambda: f"a counter, descriptor {call('perf_event_open', attributes, 0, -1, -1, 0)}")
