# Is asked for leave whenever anybody opens a file.
# Held by: filter, capabilities, own users

FAN_CLASS_CONTENT = 4
attack(lambda: f"descriptor {call('fanotify_init', FAN_CLASS_CONTENT, os.O_RDONLY)}")
