# Learns from a lock on the file that its kernel runs what a kernel of another team does.
# Control: a zygote that teams share

import fcntl


def attempt():
    with open("/proc/self/exe", "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "a kernel of another team holds the lock"
    return None


attack(attempt)
