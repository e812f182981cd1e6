# Uses a name that leads into a private network.
# Held by: checked names

attack(lambda: resolve("a-10-0-0-1.direct.test", denied="10.0.0.1"))
