# Types into a terminal as if its user had.
# Held by: filter, capabilities, own users


def attempt():
    import fcntl
    import pty

    TIOCSTI = 0x5412
    _, terminal = pty.openpty()
    os.setsid() if os.getsid(0) != os.getpid() else None
    fcntl.ioctl(terminal, 0x540E, 0)
    fcntl.ioctl(terminal, TIOCSTI, b"x")
    return "typed a letter"


attack(lambda: in_child(attempt))
