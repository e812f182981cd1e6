# Takes all the watches on files that a user may have.
# Expect: EMFILE
# Meanwhile: assert ctypes.CDLL(None).inotify_init1(0) >= 0

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
count = 0
while libc.inotify_init1(0) >= 0:
    count += 1
    if count == 100_000:
        escape("no limit")
hold(f"{errno.errorcode[ctypes.get_errno()]} after {count} instances")
