# Has the machine swap to a file that does not exist, as only somebody who may is told.
# Held by: filter, capabilities, own users

attack(lambda: call("swapon", b"/nonexistent", 0), reached={errno.ENOENT})
