# Asks a resolver in a private network directly.
# Held by: denied ranges

attack(lambda: resolve("a-10-0-0-1.direct.test", denied="10.0.0.1", server="10.0.0.53"))
