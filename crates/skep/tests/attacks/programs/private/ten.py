# Reaches a private network (10.0.0.0/8).
# Held by: denied ranges

attack(lambda: connect("10.1.2.3", 80))
