# Opens the machine's memory as a file.
# Held by: masked proc, own users, capabilities
# Needs: kcore

attack(lambda: open_on_proc("/proc/kcore", os.O_RDONLY))
