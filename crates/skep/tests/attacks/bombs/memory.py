# Takes all memory.
# Expect: killed

child = os.fork()
if child == 0:
    taken = []
    while True:
        taken.append(bytearray(b"x") * (8 << 20))
_, status = os.waitpid(child, 0)
if os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9:
    hold("killed with signal 9")
escape(f"status {status}")
