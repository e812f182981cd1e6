# Hides the family of a socket behind bits that the kernel ignores.
# Held by: filter
# Needs: virtual machine sockets

attack(lambda: f"a socket to the hypervisor, {call('socket', (1 << 32) | socket.AF_VSOCK, socket.SOCK_STREAM, 0)}")
