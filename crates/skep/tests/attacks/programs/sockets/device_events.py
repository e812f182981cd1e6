# Listens to what the kernel tells about devices.
# Held by: filter

NETLINK_KOBJECT_UEVENT = 15
attack(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_KOBJECT_UEVENT) and "hears of devices")
