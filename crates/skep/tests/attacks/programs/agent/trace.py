# Traces the agent.
# Held by: capabilities

PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17
attack(lambda: call("ptrace", PTRACE_SEIZE, agent(), 0, 0) or "traces the agent")
