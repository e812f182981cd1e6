# Reads the variables of the agent.
# Held by: capabilities

attack(lambda: open(f"/proc/{agent()}/environ").read().count("=") and "read its variables")
