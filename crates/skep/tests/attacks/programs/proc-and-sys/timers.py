# Lists the timers of all processes of the machine.
# Held by: masked proc, own users

attack(lambda: open_on_proc("/proc/timer_list", os.O_RDONLY))
