# Reaches the agent of a neighbour.
# Held by: closed neighbours


def attempt():
    with socket.create_connection((given("NEIGHBOUR"), 49983), timeout=3) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return connection.recv(100)


attack(attempt)
