# Makes message queues, which are memory of the kernel.
# Expect: EMFILE
# Meanwhile: assert ctypes.CDLL(None).mq_open(b"/one", 0o102, 0o600, (ctypes.c_long * 8)(0, 1, 64)) >= 0

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
count = 0
while libc.mq_open(b"/queue-%d" % count, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0:
    count += 1
    if count == 100_000:
        escape("no limit")
hold(f"{errno.errorcode[ctypes.get_errno()]} after {count} queues")
