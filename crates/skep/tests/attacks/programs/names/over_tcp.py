# Asks for a private address over TCP, as for long answers.
# Held by: checked names

attack(lambda: resolve("a-10-0-0-3.direct.test", denied="10.0.0.3", over_tcp=True))
