# Mounts a filesystem in memory.
# Held by: filter, capabilities

os.makedirs("/tmp/mounted", exist_ok=True)
attack(lambda: mount("none", "/tmp/mounted", "tmpfs"))
