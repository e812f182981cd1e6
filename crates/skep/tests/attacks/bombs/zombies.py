# Starts processes that end, and never asks how.
# Expect: EAGAIN

count = 0
try:
    while count < 100_000:
        if os.fork() == 0:
            os._exit(0)
        count += 1
    escape("no limit")
except OSError as error:
    hold(f"{errno.errorcode[error.errno]} after {count} zombies")
