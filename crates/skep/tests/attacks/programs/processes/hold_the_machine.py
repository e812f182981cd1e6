# Takes hold of a process of the machine by its number.
# Held by: own processes


def attempt():
    pid = int(given("PID"))
    call("pidfd_open", pid, 0)
    with open(f"/proc/{pid}/cmdline") as file:
        return f"holds {pid}" if given("SLEEP") in file.read() else None


attack(attempt)
