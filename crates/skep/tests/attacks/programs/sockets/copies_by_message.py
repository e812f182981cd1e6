# Has the kernel keep what it sends by an option of the message, which no filter sees.
# Held by: no copies
# Needs: times of one network


def attempt():
    if not os.path.exists("/proc/sys/net/core/tstamp_allow_data"):
        held("only the whole machine has such a setting")
    SO_TIMESTAMPING, TRANSMITTED = 37, 1 << 1
    return kept_copy(ancillary=[(socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("=I", TRANSMITTED))])


attack(attempt)
