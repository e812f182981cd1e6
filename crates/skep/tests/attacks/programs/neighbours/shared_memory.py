# Reads shared memory of others by its name.
# Held by: minimal dev


def attempt():
    with open(given("SHARED")) as file:
        return file.read()


attack(attempt)
