# Finds shared memory of others by its number.
# Held by: own ipc


def attempt():
    with open("/proc/sysvipc/shm") as file:
        for line in file.readlines()[1:]:
            if line.split()[1] == given("SEGMENT"):
                return f"sees segment {given('SEGMENT')} of the machine"
    return None


attack(attempt)
