# Lists the keys that the kernel holds.
# Held by: masked proc

attack(lambda: open_on_proc("/proc/keys", os.O_RDONLY))
