# Counts its neighbours by their cgroups.
# Held by: masked proc


def attempt():
    with open("/proc/cgroups") as file:
        counts = [int(line.split()[2]) for line in file if line[0] != "#"]
    return f"sees {max(counts)} cgroups" if counts else None


attack(attempt)
