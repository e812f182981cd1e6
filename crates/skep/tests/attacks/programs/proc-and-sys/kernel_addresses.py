# Learns where the kernel lies in memory.
# Held by: capabilities, own users


def attempt():
    with open("/proc/kallsyms") as symbols:
        for line in symbols:
            if int(line.split()[0], 16) != 0 and " T " in line:
                return line.strip()
    return None


attack(attempt)
