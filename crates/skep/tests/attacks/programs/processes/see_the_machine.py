# Finds a process of the machine.
# Held by: own processes


def attempt():
    for name in filter(str.isdigit, os.listdir("/proc")):
        with open(f"/proc/{name}/cmdline") as file:
            if given("SLEEP") in file.read():
                return f"sees process {name} of the machine"
    return None


attack(attempt)
