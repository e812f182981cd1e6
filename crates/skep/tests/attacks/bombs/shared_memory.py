# Takes all memory as files in memory.
# Expect: ENOSPC

total = 0
try:
    with open("/dev/shm/bomb", "wb", 0) as file:
        while total < 1 << 40:
            total += file.write(b"x" * (4 << 20))
    escape("no limit")
except OSError as error:
    hold(f"{errno.errorcode[error.errno]} after {total >> 20} MiB")
finally:
    os.unlink("/dev/shm/bomb")
