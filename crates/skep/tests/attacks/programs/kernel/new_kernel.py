# Loads another kernel. The flags are wrong, which only somebody who may load one is told.
# Held by: filter, capabilities, own users

# A kernel that cannot has no such call, which the filter does not say.
attack(
    lambda: call("kexec_load", 0, 0, None, 0xDEAD),
    reached={errno.EINVAL, errno.ENOSYS},
)
