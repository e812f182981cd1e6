# Renames the machine.
# Held by: filter, capabilities

name = socket.gethostname().encode()
attack(lambda: call("sethostname", name, len(name)) or "renamed it")
