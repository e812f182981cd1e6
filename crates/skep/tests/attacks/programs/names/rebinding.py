# Uses a name that leads to a public address first and to a private one later.
# Held by: checked names

attack(lambda: resolve("a-10-0-0-2.rebinding.test", denied="10.0.0.2", times=4))
