# Reads what the machine was started with.
# Held by: masked proc

attack(lambda: open_on_proc("/proc/cmdline", os.O_RDONLY))
