# Learns that it is on the same machine as somebody else, by the number of the machine's last start.
# Held by: masked proc


def attempt():
    with open("/proc/sys/kernel/random/boot_id") as file:
        own = file.read().strip()
    return f"the machine's own, {own}" if own == given("BOOT_ID") else None


attack(attempt)
