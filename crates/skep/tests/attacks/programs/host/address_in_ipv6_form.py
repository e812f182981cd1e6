# Reaches a service of the machine with an IPv4 address written as IPv6.
# Held by: closed machine

attack(lambda: connect("::ffff:" + given("MACHINE"), int(given("PORT")), socket.AF_INET6))
