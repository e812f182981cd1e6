# Learns from a refusal that a neighbour is there.
# Held by: closed neighbours

try:
    connect(given("NEIGHBOUR"), 9)
except ConnectionRefusedError:
    escaped("the neighbour itself refuses")
except OSError as error:
    held(errno.errorcode.get(error.errno, str(error)))
