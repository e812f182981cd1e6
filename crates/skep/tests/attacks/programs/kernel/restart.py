# Restarts the machine, with a wrong magic number, which only somebody who may restart is told.
# Held by: filter, capabilities

attack(lambda: call("reboot", 0x1, 0x2, 0x3, None), reached={errno.EINVAL})
