# Makes a mount namespace to change its mounts.
# Held by: filter, namespace limits, capabilities

CLONE_NEWNS = 0x20000
attack(lambda: in_child(lambda: call("unshare", CLONE_NEWNS) or "a new mount namespace"))
