# Reaches a private network (172.16.0.0/12), where containers live.
# Held by: denied ranges

attack(lambda: connect("172.17.0.1", 80))
