# Asks how long the log of the kernel is.
# Held by: filter, capabilities, own users

SYSLOG_ACTION_SIZE_UNREAD = 9
attack(lambda: f"{call('syslog', SYSLOG_ACTION_SIZE_UNREAD, None, 0)} bytes to read")
