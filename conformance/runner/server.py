"""Builds and starts the server under test, and tells the SDKs where it is."""

import contextlib
import dataclasses
import json
import os
import pathlib
import selectors
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

from . import images, names

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The first start builds templates, which downloads packages; later starts take a second.
START_SECONDS = 900
CACHE = pathlib.Path(os.environ.get("SKEP_CACHE_DIR", ROOT / ".cache" / "skep"))
# The template with every package of the interpreter.
WHOLE = "code-interpreter-v1"
STOP_SECONDS = 30

# `url`: API and sandboxes behind one address, told apart by headers.
# `domain`: names below a domain, with TLS.
MODES = ("url", "domain")
EXTERNAL = ("E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL", "E2B_DOMAIN", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")


@dataclasses.dataclass
class Target:
    """A server as its clients see it: variables, and what to put before a command that is to reach it."""

    variables: dict
    prefix: list


def build():
    """The executable, compiled from this tree."""
    done = subprocess.run([ROOT / "scripts/build"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("the server does not build")
    return pathlib.Path(done.stdout.strip())


@contextlib.contextmanager
def running(mode, executable):
    """A server in this mode; without an executable, the one outside."""
    if executable is None:
        yield external()
        return
    with tempfile.TemporaryDirectory(prefix="conformance-server-") as folder, images.served() as (configuration, told):
        log = pathlib.Path(folder, "log")
        pathlib.Path(folder, "skep.toml").write_text(configuration)
        with log.open("wb") as log_file:
            process = start(mode, executable, pathlib.Path(folder), log_file)
        try:
            ready = ready_line(process, log)
            with contextlib.ExitStack() as stack:
                prefix = stack.enter_context(names.resolved_by(ready["dns"], folder)) if mode == "domain" else []
                # The folder is for the cases that look for what must not be in it.
                yield Target({**clients(mode, ready), **told, "CONFORMANCE_SERVER": folder, "CONFORMANCE_EXECUTABLE": str(executable), "CONFORMANCE_CACHE": str(CACHE)}, prefix)
                end_sandboxes(ready)
        finally:
            stop(process, log)


def external():
    if not os.environ.get("E2B_API_KEY"):
        sys.exit("--external needs E2B_API_KEY in the environment")
    return Target({name: os.environ[name] for name in EXTERNAL if name in os.environ}, [])


def as_root():
    return [] if os.geteuid() == 0 else ["sudo", "--preserve-env"]


def build_templates(executable, needed, whole):
    """What the cases need beside what `skep up` builds; the first time it downloads packages."""
    for name in sorted({*needed, *([WHOLE] if whole else [])}):
        with tempfile.TemporaryDirectory(prefix="conformance-build-") as data:
            command = [*as_root(), executable, "template", "build", name, "--data-dir", data, "--cache-dir", CACHE]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"the template {name} cannot be built:\n{done.stdout}")


def start(mode, executable, folder, log_file):
    options = ["--json", "--slim", "--listen", "127.0.0.1:0", "--data-dir", folder / "data", "--cache-dir", CACHE]
    options += ["--config", folder / "skep.toml", "--share-host-package-settings"]
    command = [*as_root(), executable, "up", *options, *(["--tls"] if mode == "domain" else [])]
    # The year-old interpreter SDK for JavaScript, which knows this mode alone, makes contexts without a token.
    variables = {"SKEP_CONTEXTS_WITHOUT_TOKEN": "true"} if mode == "domain" else {}
    environment = {**os.environ, **variables}
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log_file, env=environment
    )


def ready_line(process, log):
    """What the server prints when it serves."""
    deadline = time.monotonic() + START_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if selector.select(timeout=1):
                line = process.stdout.readline()
                if line:
                    return json.loads(line)
                sys.exit(f"the server ended before it was ready:\n{log.read_text()}")
    sys.exit(f"the server was not ready within {START_SECONDS} s:\n{log.read_text()}")


def clients(mode, ready):
    """The variables that point an SDK at the server."""
    if mode == "url":
        return {
            # No domain: answers have to say it, or ports would be looked for at the vendor's.
            "E2B_API_KEY": ready["apiKey"],
            "E2B_API_URL": ready["apiUrl"],
            "E2B_SANDBOX_URL": ready["sandboxUrl"],
            "E2B_VOLUME_API_URL": ready["apiUrl"],
            "CONFORMANCE_CA_BUNDLE": ready["caBundle"],
        }
    return {
        "E2B_API_KEY": ready["apiKey"],
        "E2B_DOMAIN": ready["domain"],
        "SSL_CERT_FILE": ready["caBundle"],
        "NODE_EXTRA_CA_CERTS": ready["caCert"],
    }


def end_sandboxes(ready):
    """Kills what the cases left, since sandboxes outlive their server."""
    url, context = ready["apiUrl"], None
    if url.startswith("https:"):
        # By address: this process is outside of what resolves the names.
        url = f"https://127.0.0.1:{ready['domain'].rsplit(':', 1)[1]}"
        context = ssl.create_default_context(cafile=ready["caCert"])

    def call(method, path):
        request = urllib.request.Request(url + path, method=method, headers={"X-API-KEY": ready["apiKey"]})
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return json.loads(answer.read() or "null")

    for sandbox in call("GET", "/v2/sandboxes"):
        call("DELETE", f"/sandboxes/{sandbox['sandboxID']}")


def stop(process, log):
    """Asks the server to end; one that does not is a failure of its own."""
    if process.poll() is not None:
        tail = "\n".join(log.read_text().splitlines()[-50:])
        print(f"the server ended by itself with {process.returncode}:\n{tail}", file=sys.stderr)
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        print(f"the server did not stop within {STOP_SECONDS} s and was killed", file=sys.stderr)
    if os.environ.get("CONFORMANCE_SERVER_LOG"):
        pathlib.Path(os.environ["CONFORMANCE_SERVER_LOG"]).write_text(log.read_text())
