# Listens where callers show their tokens: to the agent, and to the interpreter in a template that has none.
# Control: a port that nobody holds

import itertools

PORTS = [49999, 49983]


def attempt():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((gateway(), 9))
        own = probe.getsockname()[0]
    refused = None
    options = [None, socket.SO_REUSEADDR, socket.SO_REUSEPORT]
    addresses = ["0.0.0.0", "127.0.0.1", own]
    for port, option, address in itertools.product(PORTS, options, addresses):
        listener = socket.socket()
        if option is not None:
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            listener.bind((address, port))
            listener.listen()
            return f"listens on {address}:{port}"
        except OSError as error:
            refused = error
    raise refused


attack(attempt)
