# Makes timers, which are counted with the signals that wait for a user.
# Expect: EAGAIN
# Meanwhile: assert ctypes.CDLL(None).timer_create(0, None, ctypes.create_string_buffer(8)) == 0

import ctypes

libc = ctypes.CDLL(None, use_errno=True)
timer = ctypes.create_string_buffer(8)
count = 0
while libc.timer_create(0, None, timer) == 0:
    count += 1
    if count == 1_000_000:
        escape("no limit")
hold(f"{errno.errorcode[ctypes.get_errno()]} after {count} timers")
