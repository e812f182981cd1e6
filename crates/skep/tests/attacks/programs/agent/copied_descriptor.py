# Copies a descriptor of the agent.
# Held by: filter, capabilities

attack(lambda: f"descriptor {call('pidfd_getfd', call('pidfd_open', agent(), 0), 0, 0)}")
