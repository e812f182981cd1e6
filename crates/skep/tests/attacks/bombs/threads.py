# Starts threads.
# Expect: EAGAIN

import threading

threading.stack_size(64 * 1024)
go_on = threading.Event()
count = 0
try:
    while count < 100_000:
        threading.Thread(target=go_on.wait, daemon=True).start()
        count += 1
    escape("no limit")
except RuntimeError:
    hold(f"EAGAIN after {count} threads")
finally:
    go_on.set()
