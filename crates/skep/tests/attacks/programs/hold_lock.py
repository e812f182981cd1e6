"""What a kernel does for an accomplice in another team: it holds a lock as long as it lives."""

import fcntl

held = open("/proc/self/exe", "rb")
fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked")
