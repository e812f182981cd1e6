# Opens terminals.
# Expect: ENOSPC
# Meanwhile: os.openpty()

terminals = []
try:
    while len(terminals) < 10_000:
        terminals.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    escape("no limit")
except OSError as error:
    hold(f"{errno.errorcode[error.errno]} after {len(terminals)} terminals")
