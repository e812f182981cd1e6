# Counts the disks of its neighbours, and what they read and write.
# Held by: masked proc


def attempt():
    seen = set()
    for path in ["/proc/diskstats", "/proc/partitions"]:
        with open(path) as file:
            seen |= {word for word in file.read().split() if word.startswith("loop")}
    if os.path.isdir("/proc/fs/ext4"):
        seen |= set(os.listdir("/proc/fs/ext4"))
    return f"sees {len(seen)} disks" if seen else None


attack(attempt)
