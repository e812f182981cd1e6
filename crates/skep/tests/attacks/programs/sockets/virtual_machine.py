# Speaks to the hypervisor, past the network namespace.
# Held by: filter
# Needs: virtual machine sockets

attack(lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) and "a socket to the hypervisor")
