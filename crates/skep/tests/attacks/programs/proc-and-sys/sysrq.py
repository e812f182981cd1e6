# Opens the file through which the machine is restarted.
# Held by: masked proc, own users
# Needs: sysrq

attack(lambda: open_on_proc("/proc/sysrq-trigger", os.O_WRONLY))
