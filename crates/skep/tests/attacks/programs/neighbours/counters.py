# Reads what the kernel counts for the machine as a whole, and so for its neighbours.
# Held by: masked proc

COUNTERS = [
    "buddyinfo", "interrupts", "softirqs", "zoneinfo", "sys/fs/dentry-state", "sys/fs/file-nr",
    "sys/fs/inode-nr", "sys/fs/inode-state", "sys/kernel/pty/nr",
]


def attempt():
    told = []
    for name in COUNTERS:
        with open("/proc/" + name) as file:
            told += [name] if file.read(16) else []
    return f"{', '.join(told)}" if told else None


attack(attempt)
