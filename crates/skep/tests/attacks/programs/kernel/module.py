# Loads a module. What it offers is none, which only the loader can find out.
# Held by: filter, capabilities, own users

# A kernel without modules has no such call, which the filter does not say.
attack(
    lambda: call("init_module", b"no module", 9, b""),
    reached={errno.ENOEXEC, errno.EINVAL, errno.ENOSYS},
)
