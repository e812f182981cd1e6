# Uses a name that is another name of a private address.
# Held by: checked names

attack(lambda: resolve("a-172-16-0-1.alias.test", denied="172.16.0.1"))
