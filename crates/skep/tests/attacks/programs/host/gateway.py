# Reaches a service of the machine at the gateway's address.
# Held by: closed machine

attack(lambda: connect(gateway(), int(given("PORT"))))
