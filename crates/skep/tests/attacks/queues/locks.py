# Locks every other byte of many files: no two locks can become one.

import fcntl

LOCKS = 200_000


def lock(file, at):
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * at)


soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
files = [os.memfd_create("locked") for _ in range(LOCKS // 500)]
for file in files:
    for at in range(500):
        lock(file, at)
time.sleep(HOLD_SECONDS)
escaped(f"{LOCKS} locks")
