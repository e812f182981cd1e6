# Changes the root of the mount namespace. The root over itself is refused even to whom may.
# Held by: filter, capabilities

attack(lambda: call("pivot_root", b"/", b"/"), reached={errno.EBUSY, errno.EINVAL})
