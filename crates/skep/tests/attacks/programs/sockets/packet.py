# Reads and writes whole frames of the link.
# Held by: filter, capabilities, own users

attack(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) and "a packet socket")
