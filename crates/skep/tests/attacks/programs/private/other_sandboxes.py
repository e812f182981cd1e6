# Reaches the range of sandboxes of other servers.
# Held by: denied ranges

attack(lambda: connect("198.19.255.254", 80))
