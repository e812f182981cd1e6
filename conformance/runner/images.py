"""Container images made here, and registries on this machine that stand for Docker Hub and for a private one."""

import contextlib
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import threading

from . import environments

# As small as Debian's own image, with Python for those that stand for Python's.
BOOTSTRAP = ["mmdebstrap", "--quiet", "--variant=apt", "--include=python3-minimal,ca-certificates", "trixie"]
# Names on Docker Hub that lead to it.
DEBIAN = ("library/debian:stable", "library/debian:13", "library/ubuntu:latest", "library/python:3", "library/python:3.12-slim",
          "library/node:lts", "oven/bun:latest")
# What its configuration says; a user and a directory are there to be ignored.
CONFIGURATION = ["--config.env", "PATH=/opt/image/bin:/usr/local/bin:/usr/bin:/bin", "--config.env", "FROM_IMAGE=yes",
                 "--config.user", "daemon", "--config.workingdir", "/nowhere"]
# On top: a file of its own, and one of Debian's removed.
TOP = {"etc/conformance": "image\n", "etc/.wh.issue": ""}
# Images that cannot be used: another distribution, and one without a shell.
FEDORA = {"usr/lib/os-release": "ID=fedora\nVERSION_ID=44\n"}
BARE = {"hello": "hello\n"}

USER, PASSWORD = "bee", "hunter2"
# The name with which a key of Google's is shown.
KEY_USER, KEY = "_json_key", '{"type":"service_account","private_key":"conformance"}'
# Both hashed by bcrypt.
HTPASSWD = f"""{USER}:$2y$05$conformanceconformancem4ArZMad8fgD1n.Lq.UYxwfIeYYT3nu
{KEY_USER}:$2y$05$conformanceconformanceDjgmaNuXqbCe7W2DUKC1FMRg6JR8tCi
"""


def prepare():
    """The storage of a registry with all images; the first time it downloads packages."""
    with environments.prepared("images", [pathlib.Path(__file__)]) as (folder, is_new):
        if is_new:
            with tempfile.TemporaryDirectory(prefix="conformance-images-") as scratch:
                push_all(folder / "storage", pathlib.Path(scratch))
    return folder / "storage"


def push_all(storage, scratch):
    tree, layout = scratch / "debian.tar", scratch / "layout"
    environments.command([*BOOTSTRAP, tree])
    environments.command(["umoci", "init", "--layout", layout])
    make(layout, "debian", [tree, layer(scratch, TOP)], CONFIGURATION)
    make(layout, "fedora", [tree, layer(scratch, FEDORA)])
    make(layout, "bare", [layer(scratch, BARE)])
    with registry(storage) as host:
        for name in DEBIAN:
            push(layout, "debian", host, name)
        push(layout, "debian", host, "private/debian:13")
        push(layout, "fedora", host, "library/fedora:44")
        push(layout, "bare", host, "library/bare:latest")


def layer(scratch, files):
    """An archive with these files."""
    path = pathlib.Path(tempfile.mkstemp(suffix=".tar", dir=scratch)[1])
    with tarfile.open(path, "w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def make(layout, tag, layers, configuration=()):
    image = f"{layout}:{tag}"
    environments.command(["umoci", "new", "--image", image])
    for archive in layers:
        environments.command(["umoci", "raw", "add-layer", "--image", image, archive])
    if configuration:
        environments.command(["umoci", "config", "--image", image, *configuration])


def push(layout, tag, host, name):
    copy = ["skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"]
    environments.command([*copy, f"oci:{layout}:{tag}", f"docker://{host}/{name}"])


@contextlib.contextmanager
def registry(storage, closed=False):
    """Debian's registry on a port of its own; yields its host."""
    with tempfile.TemporaryDirectory(prefix="conformance-registry-") as folder:
        folder = pathlib.Path(folder)
        (folder / "htpasswd").write_text(HTPASSWD)
        auth = f"auth: {{htpasswd: {{realm: conformance, path: {folder}/htpasswd}}}}\n" if closed else ""
        (folder / "config.yml").write_text(
            f"version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {storage}}}}}\n"
            f'http: {{addr: "127.0.0.1:0"}}\n{auth}'
        )
        command = ["docker-registry", "serve", folder / "config.yml"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            yield listening(process)
        finally:
            process.kill()
            process.wait()


def listening(process):
    for line in process.stderr:
        if found := re.search(r"listening on ([^\s\"]+)", line):
            # It must not stand still because nobody reads what it logs.
            threading.Thread(target=lambda: [None for _ in process.stderr], daemon=True).start()
            return found[1]
    sys.exit("docker-registry ended before it listened")


@contextlib.contextmanager
def served():
    """The registries for a server: the lines of its configuration, and variables that tell the cases of them."""
    storage = prepare()
    with registry(storage) as hub, registry(storage, closed=True) as private:
        lines = f'[registries]\n"docker.io" = "{hub}"\n"{private}" = "{private}"\n'
        yield lines, {
            "CONFORMANCE_REGISTRY": private,
            "CONFORMANCE_REGISTRY_USER": USER,
            "CONFORMANCE_REGISTRY_PASSWORD": PASSWORD,
            "CONFORMANCE_REGISTRY_KEY": KEY,
        }
