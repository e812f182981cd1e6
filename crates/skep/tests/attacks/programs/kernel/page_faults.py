# Handles its own page faults, to stop the kernel in the middle of a copy.
# Held by: filter

UFFD_USER_MODE_ONLY = 1
attack(lambda: f"descriptor {call('userfaultfd', UFFD_USER_MODE_ONLY)}")
