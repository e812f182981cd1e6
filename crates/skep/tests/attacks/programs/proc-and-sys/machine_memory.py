# Learns how much memory the machine has, and from that how much others use of it.
# Held by: masked proc


def attempt():
    with open("/proc/meminfo") as file:
        total = file.readline().split()[1]
    return f"{total} kB, as the machine has" if total == given("MEMORY") else None


attack(attempt)
