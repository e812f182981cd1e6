"""Installs the pinned SDKs below `.cache/`, once per content of their lock file."""

import contextlib
import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "conformance"


def python(lock):
    """A virtual environment with exactly what the lock file names; returns its interpreter."""
    with prepared(f"python-{lock.stem}", [lock]) as (folder, is_new):
        if is_new:
            command([sys.executable, "-m", "venv", folder])
            command([folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", lock])
    return folder / "bin/python"


def node(name, package):
    """The packages of a folder with `package.json` and lock file; returns its `node_modules`."""
    files = [package / "package.json", package / "package-lock.json"]
    with prepared(f"node-{name}", files) as (folder, is_new):
        if is_new:
            for file in files:
                shutil.copy(file, folder)
            command(["npm", "ci", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix", folder])
    return folder / "node_modules"


@contextlib.contextmanager
def prepared(name, inputs):
    """A folder that is either complete or new and empty; it counts as complete only after the body."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs))
    digest.update(sys.version.encode())
    folder = CACHE / f"{name}-{digest.hexdigest()[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    done = folder.with_suffix(".complete")
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_new = not done.exists()
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder, is_new
        done.touch()


def command(arguments):
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))} failed:\n{done.stdout}")
