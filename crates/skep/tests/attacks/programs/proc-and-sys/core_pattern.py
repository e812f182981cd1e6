# Names a program that the machine starts, as its root, when anything crashes.
# Held by: read-only proc, own users

attack(lambda: open_on_proc("/proc/sys/kernel/core_pattern", os.O_WRONLY))
