# Raises the number of namespaces that it may make.
# Held by: read-only proc, capabilities

attack(lambda: open_on_proc("/proc/sys/user/max_user_namespaces", os.O_WRONLY))
