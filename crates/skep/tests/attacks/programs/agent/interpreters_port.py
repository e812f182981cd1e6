# Listens where callers show their tokens to the interpreter, in a template that has none.
# Control: a port that nobody holds

PORT = 49999


def attempt():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((gateway(), 9))
        own = probe.getsockname()[0]
    refused = None
    for option in [None, socket.SO_REUSEADDR, socket.SO_REUSEPORT]:
        for address in ["0.0.0.0", "127.0.0.1", own]:
            listener = socket.socket()
            if option is not None:
                listener.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                listener.bind((address, PORT))
                listener.listen()
                return f"listens on {address}:{PORT}"
            except OSError as error:
                refused = error
    raise refused


attack(attempt)
