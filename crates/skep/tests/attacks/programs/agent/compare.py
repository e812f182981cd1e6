# Learns where the agent's structures lie in the kernel's memory.
# Held by: filter, capabilities

KCMP_VM = 1
attack(lambda: f"compared: {call('kcmp', os.getpid(), agent(), KCMP_VM, 0, 0)}")
