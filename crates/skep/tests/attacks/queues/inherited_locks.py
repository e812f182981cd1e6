# Locks the inode of all event descriptors through many open files, by processes that are gone when somebody
# asks who made them: each leaves its descriptors to the next.

import fcntl

LOCKS = 3_000
# Few enough for one process.
STEP = 200

resource.setrlimit(resource.RLIMIT_NOFILE, (LOCKS + 100, LOCKS + 100))
told, telling = os.pipe()
if os.fork() == 0:
    for _ in range(LOCKS // STEP):
        for _ in range(STEP):
            fcntl.flock(os.eventfd(0), fcntl.LOCK_SH)
        if os.fork() != 0:
            os._exit(0)
    os.write(telling, b"x")
    time.sleep(2 * HOLD_SECONDS)
    os._exit(0)
os.read(told, 1)
time.sleep(HOLD_SECONDS)
escaped(f"{LOCKS} locks")
