# Makes the kernel's settings writable again by mounting them anew.
# Held by: filter, capabilities, own users

MS_REMOUNT, MS_BIND = 32, 4096
attack(lambda: mount("none", "/proc/sys", None, MS_REMOUNT | MS_BIND))
