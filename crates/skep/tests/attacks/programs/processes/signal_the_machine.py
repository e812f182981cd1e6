# Signals a process of the machine.
# Held by: own processes, own users


def attempt():
    pid = int(given("PID"))
    os.kill(pid, 0)
    with open(f"/proc/{pid}/cmdline") as file:
        return f"may signal {pid}" if given("SLEEP") in file.read() else None


attack(attempt)
