# Reads what every page of the machine's memory is used for.
# Held by: masked proc, own users, capabilities

attack(lambda: open_on_proc("/proc/kpageflags", os.O_RDONLY))
