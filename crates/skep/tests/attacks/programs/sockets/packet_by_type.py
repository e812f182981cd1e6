# Asks for an internet socket of a type that makes it one of whole frames.
# Held by: filter

SOCK_PACKET = 10

# Whoever hears that it may not has come as far as the family that it did not name.
attack(lambda: socket.socket(socket.AF_INET, SOCK_PACKET) and "a packet socket", reached={errno.EPERM})
