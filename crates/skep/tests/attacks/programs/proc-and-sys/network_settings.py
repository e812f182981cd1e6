# Changes how the network namespace passes packets on.
# Held by: read-only proc, own users

attack(lambda: open_on_proc("/proc/sys/net/ipv4/ip_forward", os.O_WRONLY))
