# Asks for routes and never reads the answers.


def fill():
    asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    enlarge(asking)
    asking.bind((0, 0))
    RTM_GETLINK, REQUEST_DUMP = 18, 0x301
    request = struct.pack("=IHHIIB3xiII", 32, RTM_GETLINK, REQUEST_DUMP, 1, 0, 0, 0, 0, 0)
    try:
        for _ in range(2000):
            asking.send(request)
    except OSError:
        pass
    return asking


hoard(fill)
