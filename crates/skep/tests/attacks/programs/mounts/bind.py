# Mounts one directory over another.
# Held by: filter, capabilities

MS_BIND = 4096
os.makedirs("/tmp/bound", exist_ok=True)
attack(lambda: mount("/etc", "/tmp/bound", None, MS_BIND))
