# Asks for everything that there is about a name.
# Held by: checked names

attack(lambda: resolve("a-10-0-0-4.direct.test", denied="10.0.0.4", kind=255))
