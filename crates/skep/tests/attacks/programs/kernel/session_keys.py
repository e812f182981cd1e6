# Looks at the keyring of the session that started the server.
# Held by: filter, own keyring

KEYCTL_DESCRIBE, KEY_SPEC_SESSION_KEYRING = 6, -3


def attempt():
    text = ctypes.create_string_buffer(256)
    call("keyctl", KEYCTL_DESCRIBE, KEY_SPEC_SESSION_KEYRING, text, 256)
    kind, user, *_ = text.value.decode().split(";")
    return None if user == "0" else f"a keyring of somebody else: {text.value}"


attack(attempt)
