# Reads a directory that two layers are merged in, again and again, and changes it between: the kernel keeps all of
# its names for every version.

NAMES = 8_000
VERSIONS = 100

directory = os.path.expanduser("~")
seed = directory + "/seed"
open(seed, "w").close()
for number in range(NAMES):
    os.link(seed, f"{directory}/{'x' * 200}{number}")
kept = []
for _ in range(VERSIONS):
    open(directory + "/version", "w").close()
    os.unlink(directory + "/version")
    kept.append(os.open(directory, os.O_RDONLY | os.O_DIRECTORY))
    with os.scandir(kept[-1]) as names:
        next(names)
time.sleep(HOLD_SECONDS)
escaped(f"{VERSIONS} times {NAMES} names")
