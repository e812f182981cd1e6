# Enters a namespace by its file.
# Held by: filter, capabilities

attack(lambda: in_child(lambda: call("setns", os.open("/proc/self/ns/uts", os.O_RDONLY), 0) or "entered"))
