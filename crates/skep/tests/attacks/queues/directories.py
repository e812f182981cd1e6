# Begins to read one directory again and again: each time the kernel keeps the names of a block of it.

DESCRIPTORS = 16_000
SYS_GETDENTS64 = {"x86_64": 217, "aarch64": 61}[os.uname().machine]

directory = os.path.expanduser("~/many")
os.makedirs(directory)
for number in range(300):
    open(f"{directory}/{number}", "w").close()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
one_name = ctypes.create_string_buffer(64)
for _ in range(DESCRIPTORS):
    reading = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    if libc.syscall(SYS_GETDENTS64, reading, one_name, len(one_name)) <= 0:
        held("cannot read a directory")
time.sleep(HOLD_SECONDS)
escaped(f"{DESCRIPTORS} directories are being read")
