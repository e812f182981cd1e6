# Sends descriptors of locked files to sockets that nobody reads: they are in no table of a process.

import array
import fcntl

MESSAGES = 60
AT_ONCE = 200

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
for _ in range(MESSAGES):
    files = [os.eventfd(0) for _ in range(AT_ONCE)]
    for file in files:
        fcntl.flock(file, fcntl.LOCK_SH)
    sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
    for file in files:
        os.close(file)
time.sleep(2 * HOLD_SECONDS)
escaped(f"{MESSAGES * AT_ONCE} descriptors, each with a lock")
