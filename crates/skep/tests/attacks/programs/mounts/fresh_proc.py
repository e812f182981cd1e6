# Mounts a second /proc, which nothing covers.
# Held by: filter, capabilities, own users

os.makedirs("/tmp/proc", exist_ok=True)
attack(lambda: mount("proc", "/tmp/proc", "proc"))
