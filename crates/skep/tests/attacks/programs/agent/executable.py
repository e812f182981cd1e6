# Opens the agent's executable, which is the machine's.
# Held by: capabilities

attack(lambda: os.close(os.open(f"/proc/{agent()}/exe", os.O_RDONLY)) or "opened it")
