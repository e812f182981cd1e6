# Reaches a reserved address.
# Held by: denied ranges

attack(lambda: connect("240.0.0.1", 80))
