# Reaches a service of the machine by datagram.
# Held by: closed machine

attack(lambda: datagram(gateway(), int(given("PORT"))))
