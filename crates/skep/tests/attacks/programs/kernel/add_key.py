# Leaves a key with the kernel.
# Held by: filter

KEY_SPEC_PROCESS_KEYRING = -2
attack(lambda: f"key {call('add_key', b'user', b'skep-attack', b'x', 1, KEY_SPEC_PROCESS_KEYRING)}")
