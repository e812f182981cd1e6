# Sends as an address that is not its own.
# Held by: checked senders, capabilities, own users

attack(lambda: send_as("203.0.113.66"))
