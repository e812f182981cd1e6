# Reaches a service of the machine at its address in the world.
# Held by: closed machine

attack(lambda: connect(given("MACHINE"), int(given("PORT"))))
