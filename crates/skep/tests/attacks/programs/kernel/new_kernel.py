# Loads another kernel. The flags are wrong, which only somebody who may load one is told.
# Held by: filter, capabilities, own users
# Needs: kexec

attack(lambda: call("kexec_load", 0, 0, None, 0xDEAD), reached={errno.EINVAL})
