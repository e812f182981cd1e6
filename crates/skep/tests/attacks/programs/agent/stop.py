# Stops the agent, so that nobody reaches the sandbox any more.
# Held by: own processes


def attempt():
    import signal
    import time

    os.kill(agent(), signal.SIGSTOP)
    time.sleep(0.3)
    with open(f"/proc/{agent()}/stat") as file:
        state = file.read().rsplit(")", 1)[1].split()[0]
    os.kill(agent(), signal.SIGCONT)
    return "the agent stood still" if state in "tT" else None


attack(attempt)
