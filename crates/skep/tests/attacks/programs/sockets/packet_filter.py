# Speaks to the packet filter.
# Held by: filter

NETLINK_NETFILTER = 12
attack(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) and "a socket to the packet filter")
