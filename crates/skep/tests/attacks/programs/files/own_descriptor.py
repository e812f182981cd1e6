# Leads the file API to one of its own descriptors.
# Control: a file API that opens what it is told

attack(lambda: read_through("/proc/self/fd/3"))
