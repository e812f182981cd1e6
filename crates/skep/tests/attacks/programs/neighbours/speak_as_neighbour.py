# Sends as its neighbour.
# Held by: checked senders, capabilities, own users

attack(lambda: send_as(given("NEIGHBOUR")))
