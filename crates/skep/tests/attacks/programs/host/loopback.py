# Reaches a service that the machine offers to itself only.
# Held by: own network

attack(lambda: connect("127.0.0.1", int(given("LOOPBACK_PORT"))))
