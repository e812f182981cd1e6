# Has a command started in a folder that only a descriptor of the agent leads to.
# Control: a file API that opens what it is told


def attempt():
    for number in range(3, 48):
        for process in ["self", "1", str(agent())]:
            folder = start_process(f"/proc/{process}/fd/{number}", "pwd")
            if folder.startswith("/"):
                return f"it starts in {folder}"
    return None


attack(attempt)
