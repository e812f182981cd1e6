# Takes requests of the older asynchronous interface, of which the machine has one number for all.
# Held by: filter


def attempt():
    context = ctypes.create_string_buffer(8)
    call("io_setup", 64, context)
    try:
        with open("/proc/sys/fs/aio-nr") as taken, open("/proc/sys/fs/aio-max-nr") as most:
            return f"{taken.read().strip()} of {most.read().strip()} requests for all are taken"
    finally:
        call("io_destroy", struct.unpack("q", context.raw)[0])


attack(attempt)
