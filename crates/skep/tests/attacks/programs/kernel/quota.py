# Changes a quota of a filesystem. There is none of that kind, as only somebody who may is told.
# Held by: filter, capabilities, own users

Q_SYNC = 0x800001 << 8
attack(lambda: call("quotactl", Q_SYNC | 0, b"/nonexistent", 0, None), reached={errno.ENOENT})
