# Uses a name that leads to a loopback.
# Held by: checked names

attack(lambda: resolve("a-127-0-0-1.direct.test", denied="127.0.0.1"))
