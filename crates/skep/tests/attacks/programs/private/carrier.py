# Reaches the network of the provider (100.64.0.0/10), where some clouds keep metadata.
# Held by: denied ranges

attack(lambda: connect("100.100.100.200", 80))
