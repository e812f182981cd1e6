"""Installs the pinned SDKs below `.cache/`, once per content of their lock file."""

import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Without links: npm takes a folder behind one for a package beside the one that it is to install.
CACHE = (ROOT / ".cache" / "conformance").resolve()


def python(lock, name=None):
    """A virtual environment with exactly what the lock file names; returns its interpreter."""
    with prepared(f"python-{name or lock.stem}", [lock]) as (folder, is_new):
        if is_new:
            interpreter = folder / "bin/python"
            uv(["venv", "--quiet", "--allow-existing", "--python", sys.executable, folder])
            # Compiled here and not when they are run: some frameworks are thousands of modules.
            uv(["pip", "install", "--quiet", "--python", interpreter, "--no-deps", "--compile-bytecode", "-r", lock])
    return folder / "bin/python"


def file_of_wheel(lock, path):
    """One file of the wheel that a lock file names, without the package; returns the folder in which it has its path."""
    with prepared(f"wheel-{lock.stem}", [lock]) as (folder, is_new):
        if is_new:
            with tempfile.TemporaryDirectory(dir=folder) as downloaded:
                options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", downloaded]
                pip = uv_executable().parent / "python"
                command([pip, "-m", "pip", "download", *options, "--requirement", lock])
                [wheel] = pathlib.Path(downloaded).glob("*.whl")
                with zipfile.ZipFile(wheel) as archive:
                    archive.extract(path, folder)
    return folder


def uv(arguments):
    """Runs uv, which links what several environments have in common instead of copying it."""
    variables = {
        **os.environ,
        "UV_CACHE_DIR": str(CACHE / "uv"),
        "UV_NO_CONFIG": "1",
        # As pip does: the authorities that this host trusts, and its mirror if it has one.
        "UV_SYSTEM_CERTS": "1",
        "UV_NATIVE_TLS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_HTTP_TIMEOUT": "180",
    }
    for setting, variable in (("index-url", "UV_DEFAULT_INDEX"), ("extra-index-url", "UV_INDEX")):
        if value := pip_setting(setting):
            variables.setdefault(variable, value)
    command([uv_executable(), *arguments], variables)


@functools.cache
def pip_setting(name):
    """What pip would use, from its variables or its files."""
    if value := os.environ.get(f"PIP_{name.replace('-', '_').upper()}"):
        return value
    asked = [sys.executable, "-m", "pip", "config", "get", f"global.{name}"]
    return subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()


@functools.cache
def uv_executable():
    lock = ROOT / "conformance" / "uv.txt"
    with prepared("uv", [lock]) as (folder, is_new):
        if is_new:
            command([sys.executable, "-m", "venv", folder])
            install = ["-m", "pip", "install", "--quiet", "--no-deps", "--requirement", lock]
            command([folder / "bin/python", *install])
    return folder / "bin/uv"


def node(name, package):
    """The packages of a folder with `package.json` and lock file; returns its `node_modules`."""
    files = [package / "package.json", package / "package-lock.json"]
    with prepared(f"node-{name}", files) as (folder, is_new):
        if is_new:
            for file in files:
                shutil.copy(file, folder)
            command(["npm", "ci", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix", folder])
    return folder / "node_modules"


def with_our_package(official):
    """The packages of `official`, and ours compiled beside them; returns the `node_modules` of both."""
    source = ROOT / "sdk" / "js"
    sources = [source / file for file in ("package.json", "package-lock.json", "tsconfig.json", "build.mjs")]
    compiler = node("sdk-js", source)
    with prepared(f"skep-{official.parent.name}", [*sources, *sorted((source / "src").glob("*.ts"))]) as (folder, is_new):
        modules = folder / "node_modules"
        if is_new:
            # Not below `node_modules`, where the compiler takes sources for somebody else's.
            package = folder / "package"
            package.mkdir()
            for file in sources:
                shutil.copy(file, package)
            shutil.copytree(source / "src", package / "src")
            # It finds its compiler there, and the types that it extends; what it runs with lies beside it.
            (package / "node_modules").symlink_to(compiler)
            command(["node", "build.mjs"], folder=package)
            (package / "node_modules").unlink()
            (modules / "@skep").mkdir(parents=True)
            package.rename(modules / "@skep" / "sdk")
            for neighbour in official.iterdir():
                if not neighbour.name.startswith("."):
                    (modules / neighbour.name).symlink_to(neighbour)
    return modules


@contextlib.contextmanager
def prepared(name, inputs):
    """A folder that is either complete or new and empty; it counts as complete only after the body."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs))
    digest.update(sys.version.encode())
    folder = CACHE / f"{name}-{digest.hexdigest()[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    done = folder.with_name(f"{folder.name}.complete")
    with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_new = not done.exists()
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder, is_new
        done.touch()


def command(arguments, variables=None, folder=None):
    done = subprocess.run(arguments, env=variables, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))} failed:\n{done.stdout}")
