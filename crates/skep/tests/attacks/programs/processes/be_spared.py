# Has the kernel kill others first when memory is short.
# Held by: capabilities, own users
# Needs: the right to raise limits


def attempt():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
    return "is never killed"


attack(attempt)
