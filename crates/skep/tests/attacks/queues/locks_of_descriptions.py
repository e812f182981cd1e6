# Locks that belong to open files instead of a process, made by a thread with descriptors of its own.

import fcntl
import threading

LOCKS = 100_000
F_OFD_SETLK = 37
CLONE_FILES = 0x400


def lock():
    if libc.unshare(CLONE_FILES) != 0:
        held("no descriptors of its own")
    for file in [os.memfd_create("locked") for _ in range(LOCKS // 500)]:
        for at in range(500):
            wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 2 * at, 1, 0)
            fcntl.fcntl(file, F_OFD_SETLK, wanted)
    time.sleep(HOLD_SECONDS)


soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
thread = threading.Thread(target=lock)
thread.start()
thread.join()
escaped(f"{LOCKS} locks")
