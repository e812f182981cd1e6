# Writes to the file that takes the place of /proc/meminfo, which the server's own processes have made.
# Held by: filter, capabilities, own users

MS_REMOUNT, MS_BIND = 32, 4096


def attempt():
    mount("none", "/proc/meminfo", None, MS_REMOUNT | MS_BIND)
    with open("/proc/meminfo", "r+") as file:
        return f"wrote {file.write('MemTotal: 0 kB')} characters"


attack(attempt)
