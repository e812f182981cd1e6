# Unmounts what covers a file of /proc.
# Held by: filter, capabilities, own users

MNT_DETACH = 2
attack(lambda: call("umount2", b"/proc/keys", MNT_DETACH) or "uncovered /proc/keys")
