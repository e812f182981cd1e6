# Has the kernel compute, through sockets that load its modules.
# Held by: filter
# Needs: crypto sockets

attack(lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET) and "a crypto socket")
