# Reads the log of the kernel.
# Held by: masked proc, own users, capabilities

attack(lambda: open_on_proc("/proc/kmsg", os.O_RDONLY))
