# Registers an interpreter for the programs of others.
# Held by: filter, capabilities

os.makedirs("/tmp/binfmt", exist_ok=True)
attack(lambda: mount("none", "/tmp/binfmt", "binfmt_misc"))
