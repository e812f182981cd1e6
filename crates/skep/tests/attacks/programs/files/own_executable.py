# Leads the file API to its own executable, which is the machine's.
# Control: a file API that opens what it is told

attack(lambda: read_through("/proc/self/exe"))
