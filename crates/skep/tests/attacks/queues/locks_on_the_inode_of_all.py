# Locks the inode that all event descriptors of the host have in common: each of them is slower to close.

import fcntl

LOCKS = 3_000

event = os.eventfd(0)
for at in range(LOCKS):
    fcntl.lockf(event, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * at)
time.sleep(HOLD_SECONDS)
escaped(f"{LOCKS} locks")
