"""The suites: one per SDK and generation, each a process of its own."""

from . import environments, frameworks, generations
from .suite import HERE, Suite

SDKS = ("python", "js", "skep", "cli", "generations", "frameworks", "notebooks", "mcp", "jupyter")
GENERATIONS = ("new", "year")
# What makes the cases for Python use our package, as it lies in this tree.
OUR_PYTHON = {"CONFORMANCE_PACKAGE": "skep", "PYTHONPATH": str(HERE.parent / "sdk" / "python" / "src")}
# The template with every language.
LANGUAGES = "code-interpreter-languages"


def chosen(sdks, wanted):
    """The suites asked for, longest first, so that none is left alone at the end."""
    made = [suite for sdk in sdks or SDKS for suite in SUITES[sdk](wanted)]
    order = ("new", "year", "all")
    return sorted(made, key=lambda suite: order.index(suite.generation))


def of_generations(*kinds):
    """What makes suites that are the same for two generations."""

    def make(wanted):
        return [kind(generation) for kind in kinds for generation in wanted or GENERATIONS if generation in kind.has]

    return make


def of_all(module):
    """What makes suites that have generations of their own, or none."""
    return lambda wanted: [] if wanted else module.suites()


class TwoGenerations(Suite):
    has = GENERATIONS

    def __init__(self, generation):
        self.generation = generation


class Python(TwoGenerations):
    """The cases that are written once for two SDKs, with one of them."""

    folder = HERE / "python"
    templates = (LANGUAGES,)
    # pytest: all passed, some failed, none selected.
    ended_codes = (0, 1, 5)

    def install(self):
        self.interpreter = environments.python(self.folder / f"{self.generation}.txt")
        self.modules = environments.node(f"js-{self.generation}", HERE / "js" / self.generation)

    def command(self, pattern):
        return [self.interpreter, "-m", "pytest", *(["-k", pattern] if pattern else [])]

    def variables(self):
        return {
            "CONFORMANCE_FLAVOUR": self.flavour,
            "CONFORMANCE_NODE_MODULES": str(self.modules),
            "PYTHONDONTWRITEBYTECODE": "1",
        }


class PythonSync(Python):
    name, flavour = "python sync", "sync"


class PythonAsync(Python):
    name, flavour = "python async", "async"


class Ours:
    """The same cases with our own package, which extends the one of that generation.

    Each generation runs in one mode: what differs by mode is the official package's, which has both.
    """

    @property
    def modes(self):
        return ("url",) if self.generation == "new" else ("domain",)


class SkepPythonSync(Ours, PythonSync):
    name = "skep python sync"

    def variables(self):
        return {**super().variables(), **OUR_PYTHON}


class SkepPythonAsync(Ours, PythonAsync):
    name = "skep python async"

    def variables(self):
        return {**super().variables(), **OUR_PYTHON}


class JavaScript(TwoGenerations):
    name = "js"
    folder = HERE / "js"
    templates = (LANGUAGES,)

    def install(self):
        self.modules = environments.node(f"js-{self.generation}", self.folder / self.generation)

    def command(self, pattern):
        selected = ["--test-name-pattern", pattern.replace(" or ", "|")] if pattern else []
        return ["node", *selected, "all.mjs"]

    def variables(self):
        return {"CONFORMANCE_NODE_MODULES": str(self.modules)}


class SkepJavaScript(Ours, JavaScript):
    name = "skep js"

    def install(self):
        official = environments.node(f"js-{self.generation}", self.folder / self.generation)
        self.modules = environments.with_our_package(official)

    def variables(self):
        return {**super().variables(), "CONFORMANCE_PACKAGE": "skep"}


class CommandLine(TwoGenerations):
    name = "cli"
    folder = HERE / "cli"
    ended_codes = (0, 1, 5)

    def install(self):
        # The cases are Python and make their sandboxes with the newest SDK; only the CLI is of its generation.
        self.interpreter = environments.python(HERE / "python" / "new.txt")
        self.modules = environments.node(f"cli-{self.generation}", self.folder / self.generation)

    def command(self, pattern):
        return [self.interpreter, "-m", "pytest", *(["-k", pattern] if pattern else [])]

    def variables(self):
        return {
            "CONFORMANCE_CLI": str(self.modules / "@e2b" / "cli"),
            "CONFORMANCE_GENERATION": self.generation,
            "PYTHONDONTWRITEBYTECODE": "1",
        }


class Notebooks(TwoGenerations):
    """`skep notebook`, held to what Jupyter itself makes of a notebook and calls valid."""

    name = "notebooks"
    folder = HERE / "notebooks"
    has = ("new",)
    ended_codes = (0, 1, 5)

    def install(self):
        self.interpreter = environments.python(self.folder / "notebooks.txt")

    def command(self, pattern):
        return [self.interpreter, "-m", "pytest", *(["-k", pattern] if pattern else [])]

    def variables(self):
        return {"PYTHONDONTWRITEBYTECODE": "1"}


class ModelContext(TwoGenerations):
    """`skep mcp` and `/mcp`, used by the protocol's own clients."""

    name = "mcp"
    folder = HERE / "mcp"
    has = ("new",)
    templates = ("mcp-gateway",)
    ended_codes = (0, 1, 5)

    def install(self):
        self.interpreter = environments.python(self.folder / "mcp.txt")
        self.modules = environments.node("mcp", self.folder / "clients")

    def command(self, pattern):
        return [self.interpreter, "-m", "pytest", *(["-k", pattern] if pattern else [])]

    def variables(self):
        return {"CONFORMANCE_NODE_MODULES": str(self.modules), "PYTHONDONTWRITEBYTECODE": "1"}


class Jupyter(TwoGenerations):
    """`/skep/jupyter`, used by Jupyter's own clients, and by Open WebUI's, which is one file of its package."""

    name = "jupyter"
    folder = HERE / "jupyter"
    has = ("new",)
    # What differs by mode is the way to the server, which the SDKs and MCP try.
    modes = ("url",)
    ended_codes = (0, 1, 5)

    def install(self):
        self.interpreter = environments.python(self.folder / "jupyter.txt")
        client = "open_webui/utils/code_interpreter.py"
        self.open_webui = environments.file_of_wheel(self.folder / "open-webui.txt", client)

    def command(self, pattern):
        return [self.interpreter, "-m", "pytest", *(["-k", pattern] if pattern else [])]

    def variables(self):
        return {"CONFORMANCE_OPEN_WEBUI": str(self.open_webui), "PYTHONDONTWRITEBYTECODE": "1"}


SUITES = {
    "python": of_generations(PythonSync, PythonAsync),
    "js": of_generations(JavaScript),
    "skep": of_generations(SkepPythonSync, SkepPythonAsync, SkepJavaScript),
    "cli": of_generations(CommandLine),
    "generations": of_all(generations),
    "frameworks": of_all(frameworks),
    "notebooks": of_generations(Notebooks),
    "mcp": of_generations(ModelContext),
    "jupyter": of_generations(Jupyter),
}
