# Scans the gateway for services other than names.
# Held by: closed machine


def attempt():
    port = int(given("PORT"))
    for candidate in [21, 22, 25, 80, 111, 443, 2375, 2376, 3000, 5432, 6379, 8080, 9090, 10250, 49983, port]:
        try:
            connect(gateway(), candidate)
            return f"port {candidate} of the machine is open"
        except OSError:
            pass
    return None


attack(attempt)
