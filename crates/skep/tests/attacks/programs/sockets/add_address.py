# Gives its link another address.
# Held by: capabilities, own users


def attempt():
    RTM_NEWADDR, NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, IFA_LOCAL = 20, 1, 4, 0x400, 2
    index = socket.if_nametoindex("lo")
    body = struct.pack("=BBBBI", socket.AF_INET, 32, 0, 0, index)
    body += struct.pack("=HH4s", 8, IFA_LOCAL, socket.inet_aton("203.0.113.99"))
    head = struct.pack("=IHHII", 16 + len(body), RTM_NEWADDR, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0)
    routes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    routes.send(head + body)
    (code,) = struct.unpack_from("=i", routes.recv(4096), 16)
    if code:
        raise OSError(-code, os.strerror(-code))
    return "has another address"


attack(attempt)
