# Makes packets of its own.
# Held by: capabilities, own users

attack(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) and "a raw socket")
