# Makes a user namespace, in which all capabilities come back.
# Held by: filter, namespace limits

CLONE_NEWUSER = 0x10000000
attack(lambda: in_child(lambda: call("unshare", CLONE_NEWUSER) or "root of a new user namespace"))
