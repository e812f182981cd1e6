# Makes a network namespace to have one that it owns.
# Held by: filter, namespace limits, capabilities

CLONE_NEWNET = 0x40000000
attack(lambda: in_child(lambda: call("unshare", CLONE_NEWNET) or "a new network namespace"))
