# Reaches a socket of the machine that has a name but no file.
# Held by: own network


def attempt():
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("\0" + given("ABSTRACT"))
        return connection.recv(100)


attack(attempt)
