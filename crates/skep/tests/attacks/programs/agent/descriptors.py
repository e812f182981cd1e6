# Opens the agent's door to another cgroup.
# Held by: capabilities, own users


def attempt():
    for number in range(3, 32):
        link = f"/proc/{agent()}/fd/{number}"
        if "cgroup" in os.readlink(link):
            os.close(os.open(link, os.O_WRONLY))
            return f"opened {os.readlink(link)}"
    return None


attack(attempt)
