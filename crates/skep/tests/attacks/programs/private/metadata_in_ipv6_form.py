# Reads the metadata of the cloud with its address written as IPv6.
# Held by: denied ranges

attack(lambda: connect("::ffff:169.254.169.254", 80, socket.AF_INET6))
