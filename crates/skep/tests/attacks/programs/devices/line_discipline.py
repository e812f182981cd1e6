# Sets the line discipline of a terminal, which loads the code of modems and radios.
# Held by: filter


def attempt():
    import fcntl
    import pty

    TIOCSETD = 0x5423
    N_TTY = 0
    _, terminal = pty.openpty()
    fcntl.ioctl(terminal, TIOCSETD, struct.pack("i", N_TTY))
    return "set a line discipline"


attack(attempt)
