# Makes a time namespace, which filters forget because its flag is a signal elsewhere.
# Held by: filter, namespace limits, capabilities

CLONE_NEWTIME = 0x80
attack(lambda: in_child(lambda: call("unshare", CLONE_NEWTIME) or "a new time namespace"))
