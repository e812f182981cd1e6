# Uses a name that leads to a public and to a private address.
# Held by: checked names

attack(lambda: resolve("a-192-168-1-1.mixed.test", denied="192.168.1.1"))
