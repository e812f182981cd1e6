"""Releases of the SDKs from the first to the newest, and other runtimes for JavaScript, with one list of checks."""

import json
import pathlib
import shutil
import tempfile

from . import environments
from .suite import HERE, Suite

FOLDER = HERE / "generations"
# Which releases, as `<interpreter>-<SDK>`, and how each can be told where the server is.
RELEASES = json.loads((FOLDER / "releases.json").read_text())

BUN = "@oven/bun-linux-x64/bin/bun"
DENO = "@deno/linux-x64-glibc/deno"
WORKERD = "@cloudflare/workerd-linux-64/bin/workerd"

WORKER = """using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [(name = "worker", esModule = embed "worker.js")],
      compatibilityDate = "2026-10-01",
      bindings = [%s],
      globalOutbound = "network",
    )),
    (name = "network", network = (allow = ["public", "private", "local"]%s)),
  ],
);
"""


def suites():
    runtimes = {"bun": Runtime, "deno": Runtime, "workerd": Workerd}
    return [
        *(PythonRelease(release) for release in RELEASES["python"]),
        *(JavaScriptRelease(release) for release in RELEASES["javascript"]),
        *(runtimes[release["name"]](release) for release in RELEASES["runtimes"]),
    ]


class Release(Suite):
    folder = FOLDER
    # What failed is in the results. Any other end, such as that of a package that cannot be loaded, is none.
    ended_codes = (0,)

    def __init__(self, release):
        self.release = release["name"]
        self.modes = tuple(release["modes"])
        self.name = f"{self.kind} {self.release}"


class PythonRelease(Release):
    kind = "python"

    def install(self):
        lock = FOLDER / "python" / f"{self.release}.txt"
        self.interpreter = environments.python(lock, f"generation-{self.release}")

    def command(self, pattern):
        return [self.interpreter, "check.py"]

    def variables(self):
        return {"PYTHONDONTWRITEBYTECODE": "1"}


class JavaScriptRelease(Release):
    kind = "javascript"

    def install(self):
        self.modules = environments.node(f"generation-{self.release}", FOLDER / "javascript" / self.release)

    def command(self, pattern):
        return ["node", "check.mjs"]

    def variables(self):
        return {"CONFORMANCE_NODE_MODULES": str(self.modules)}


class Runtime(Release):
    """The newest release on something else than Node."""

    kind = "runtime"

    def install(self):
        self.runtimes = environments.node("runtimes", FOLDER / "runtimes")
        self.modules = environments.node("js-new", HERE / "js" / "new")

    def command(self, pattern):
        if self.release == "bun":
            return [self.runtimes / BUN, "check.mjs"]
        return [self.runtimes / DENO, "run", "--allow-all", "--node-modules-dir=manual", "check.mjs"]

    def variables(self):
        return {"CONFORMANCE_NODE_MODULES": str(self.modules), "CONFORMANCE_RUNTIME": self.release}


class Workerd(Runtime):
    """The newest release in a Worker, which has no files: it is bundled, and prints what it found."""

    def run(self, target, results, mode, options):
        with tempfile.TemporaryDirectory(prefix="worker-") as folder:
            place = pathlib.Path(folder)
            for name in ("checks.mjs", "worker.mjs"):
                shutil.copy(FOLDER / name, place)
            (place / "node_modules").symlink_to(self.modules)
            bundle = ["build", "worker.mjs", "--target=browser", "--outfile=worker.js", "--external=node:*"]
            environments.command([self.runtimes / BUN, *bundle], folder=place)
            config = place / "config.capnp"
            config.write_text(worker(target.variables, options.pattern))
            done = self.process(target, [self.runtimes / WORKERD, "test", config], {})
        outcomes = [json.loads(line[8:]) for line in done.stdout.split("\n") if line.startswith("OUTCOME ")]
        with open(results, "a") as file:
            for outcome in outcomes:
                file.write(json.dumps(self.line(mode, *outcome)) + "\n")
        if done.returncode != 0:
            print(f"\n{self.name} ended with {done.returncode}:\n{done.stdout}")
        return done.returncode == 0

    def line(self, mode, feature, outcome, seconds, detail):
        version = [json.loads((self.modules / name / "package.json").read_text())["version"] for name in PACKAGES]
        return {
            "sdk": "workerd",
            "version": f"{version[0]} ({version[1]})",
            "generation": "all",
            "mode": mode,
            "feature": feature,
            "case": f"{feature} works as that release has it",
            "outcome": outcome,
            "seconds": seconds,
            "detail": detail,
        }


PACKAGES = ("@e2b/code-interpreter", "e2b")


def worker(variables, pattern):
    """What a Worker is told: texts for its environment, and whom its connections trust."""
    texts = {name: value for name, value in variables.items() if name.startswith("E2B_")}
    texts["PATTERN"] = pattern or ""
    bindings = ", ".join(f"(name = {json.dumps(name)}, text = {json.dumps(text)})" for name, text in texts.items())
    # One certificate: the file of all that the host trusts is more than a Worker takes.
    authority = variables.get("NODE_EXTRA_CA_CERTS")
    trust = ""
    if authority:
        certificate = json.dumps(pathlib.Path(authority).read_text())
        trust = f", tlsOptions = (trustedCertificates = [{certificate}])"
    return WORKER % (bindings, trust)
