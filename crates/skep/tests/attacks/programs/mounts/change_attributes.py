# Changes what a mount allows.
# Held by: filter, capabilities

MOUNT_ATTR_NOSUID = 2
attributes = ctypes.create_string_buffer(struct.pack("4Q", MOUNT_ATTR_NOSUID, 0, 0, 0), 32)
attack(lambda: call("mount_setattr", AT_FDCWD, b"/run", 0, attributes, 32) or "changed a mount")
