# Becomes a user beyond the range of the sandbox.
# Held by: own users

attack(lambda: in_child(lambda: os.setresuid(70_000, 70_000, 70_000) or f"is user {os.getuid()}"))
