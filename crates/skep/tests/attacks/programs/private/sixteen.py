# Reaches a private network (192.168.0.0/16).
# Held by: denied ranges

attack(lambda: connect("192.168.1.1", 80))
