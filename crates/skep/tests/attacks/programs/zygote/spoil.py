# Changes a fork of the zygote before the server has looked at it, so that it is taken for a cheat.
# Control: a zygote that enters the sandbox first
# As: user

def look(number):
    try:
        with open(f"/proc/{number}/oom_score_adj", "w") as file:
            file.write("777")
    except OSError:
        pass
    # One that is not forked had to be started, because the server did not like a fork.
    try:
        with open(f"/proc/{number}/cmdline", "rb") as file:
            command = file.read()
    except OSError:
        return None
    if b"skep_kernel" in command and not is_forked(number):
        return f"a kernel had to be started: {command.decode()}"


while_kernels_come(look)
