# Starts processes that start processes.
# Expect: EAGAIN

children = []
try:
    while len(children) < 100_000:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
    escape("no limit")
except OSError as error:
    hold(f"{errno.errorcode[error.errno]} after {len(children)} processes")
finally:
    for child in children:
        os.kill(child, 9)
