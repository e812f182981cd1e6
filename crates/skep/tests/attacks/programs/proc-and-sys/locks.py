# Reads the list of all file locks, which holds up everybody on the machine who locks a file meanwhile.
# Held by: masked proc

attack(lambda: open_on_proc("/proc/locks", os.O_RDONLY))
