# Leads the file API to the map of its own memory.
# Control: a file API that opens what it is told

attack(lambda: read_through("/proc/thread-self/maps"))
