# Changes a fork of the zygote before the server has looked at it, so that it is taken for a cheat.
# Control: a zygote that enters the sandbox first
# As: user

def look(number):
    try:
        with open(f"/proc/{number}/oom_score_adj", "w") as file:
            file.write("777")
    except OSError:
        pass
    # One that is not forked had to be started, because the server did not like a fork. Read once: a process that
    # ends between two looks has no command any more.
    try:
        with open(f"/proc/{number}/cmdline", "rb") as file:
            command = file.read()
    except OSError:
        return None
    if b"skep_kernel" in command and b"skep_kernel.zygote" not in command:
        return f"a kernel had to be started: {command.decode()}"


while_kernels_come(look)
