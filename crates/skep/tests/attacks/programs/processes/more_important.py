# Makes itself more important than everything else on the machine.
# Held by: capabilities, own users

attack(lambda: in_child(lambda: os.setpriority(os.PRIO_PROCESS, 0, -20) or "comes first"))
