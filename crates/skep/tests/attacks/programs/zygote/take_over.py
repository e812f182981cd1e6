# Interrupts a fork of the zygote, so that it shows a traceback and reads the sandbox's own code to do so.
# Control: a zygote that enters the sandbox first

TAKEN = "/tmp/taken-over"
plant(f"""
import os
with open("/proc/self/status") as file:
    fields = dict(line.split(":", 1) for line in file)
with open("{TAKEN}", "a") as file:
    file.write(fields["CapEff"].strip() + "\\n")
os._exit(0)
""")
# What else is looked for by whoever asks what time it is, or how to say something.
for path in ("/etc/localtime", "/usr/share/locale/locale.alias"):
    if os.path.lexists(path):
        os.remove(path)
    with open(path, "wb") as file:
        file.write(os.urandom(512))


def look(number):
    interrupt(number)
    if os.path.exists(TAKEN):
        with open(TAKEN) as file:
            taken = max((int(line, 16) for line in file), default=0)
        if taken:
            return f"code of the sandbox ran with {taken:x}"


while_kernels_come(look)
