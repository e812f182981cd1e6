"""Container images made here, and registries on this machine that stand for Docker Hub and for a private one."""

import contextlib
import hashlib
import io
import json
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
# A root like Alpine's, of BusyBox and musl, which Debian has, too; but nothing to install packages from.
BOX = ("busybox-static", "musl")
BOX_FILES = {"etc/os-release": "ID=alpine\nVERSION_ID=3.24\n", "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:root\n"}
BOX_PROGRAMS = ("sh", "cat", "id", "mkdir", "pgrep", "rm", "tail", "tar")
ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"

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
    make(layout, "box", [*packages(scratch, BOX), layer(scratch, BOX_FILES, {f"bin/{name}": "busybox" for name in BOX_PROGRAMS})])
    compress_by_zstd(layout, "debian", "zstd")
    with registry(storage) as host:
        for name in DEBIAN:
            push(layout, "debian", host, name)
        push(layout, "debian", host, "private/debian:13")
        push(layout, "fedora", host, "library/fedora:44")
        push(layout, "bare", host, "library/bare:latest")
        push(layout, "box", host, "library/alpine:3.24")
        push(layout, "zstd", host, "library/debian:zstd")


def packages(scratch, names):
    """Archives with what is in packages of Debian, in the places of a root without merged directories."""
    for name in names:
        folder = scratch / name
        folder.mkdir()
        environments.command(["apt-get", "download", "-qq", name], folder=folder)
        environments.command(["dpkg-deb", "--extract", *folder.glob("*.deb"), folder / "root"])
        path = scratch / f"{name}.tar"
        with tarfile.open(path, "w") as archive:
            for file in sorted((folder / "root").rglob("*")):
                archive.add(file, str(file.relative_to(folder / "root")).removeprefix("usr/"), recursive=False)
        yield path


def compress_by_zstd(layout, source, tag):
    """The same image under another tag, with layers that are compressed by zstd."""
    index = json.loads((layout / "index.json").read_text())
    named = {entry["annotations"]["org.opencontainers.image.ref.name"]: entry for entry in index["manifests"]}
    blob = lambda digest: layout / "blobs" / "sha256" / digest.removeprefix("sha256:")  # noqa: E731
    manifest = json.loads(blob(named[source]["digest"]).read_text())
    for entry in manifest["layers"]:
        unpacked = subprocess.run(["gzip", "-dc", blob(entry["digest"])], check=True, stdout=subprocess.PIPE).stdout
        packed = subprocess.run(["zstd", "-q", "-c"], check=True, input=unpacked, stdout=subprocess.PIPE).stdout
        entry |= {"mediaType": ZSTD, "digest": f"sha256:{hashlib.sha256(packed).hexdigest()}", "size": len(packed)}
        blob(entry["digest"]).write_bytes(packed)
    text = json.dumps(manifest).encode()
    digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
    blob(digest).write_bytes(text)
    name = {"org.opencontainers.image.ref.name": tag}
    index["manifests"].append({**named[source], "digest": digest, "size": len(text), "annotations": name})
    (layout / "index.json").write_text(json.dumps(index))


def layer(scratch, files, links={}):
    """An archive with these files, and symbolic links to others."""
    path = pathlib.Path(tempfile.mkstemp(suffix=".tar", dir=scratch)[1])
    with tarfile.open(path, "w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
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
