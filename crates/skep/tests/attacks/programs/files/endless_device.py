# Leads the file API to a device that never ends.
# Control: a file API that opens what it is told

attack(lambda: read_through("/dev/zero"))
