# Leads the file API to its own variables.
# Control: a file API that opens what it is told

attack(lambda: read_through("/proc/self/environ"))
