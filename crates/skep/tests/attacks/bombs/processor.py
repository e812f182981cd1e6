# Computes on as many processors as there are, and more.
# Expect: throttled

start = time.monotonic()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        while time.monotonic() < start + 3:
            pass
        os._exit(0)
    children.append(child)
used = 0.0
for _ in children:
    _, _, usage = os.wait3(0)
    used += usage.ru_utime + usage.ru_stime
share = used / (time.monotonic() - start)
# The limit is one processor; the clock of processes ticks coarsely.
if share < 1.25:
    hold(f"throttled to {share:.2f} processors")
escape(f"{share:.2f} processors")
