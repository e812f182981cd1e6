"""The servers that a configuration names: where they come from, and the command that runs each."""

import dataclasses
import json
import pathlib
import re

# Servers that can be had, and the others of the SDKs' catalogue, each with the reason why it cannot: every name is in one.
CATALOGUE = json.loads((pathlib.Path(__file__).parent / "catalogue.json").read_text())
REFUSED = json.loads((pathlib.Path(__file__).parent / "refused.json").read_text())
# Reasons that many have; others have one of their own.
REASONS = {
    "image": "it is published as an image for Docker, and no package of its project was found on npm or PyPI",
    "others": "packages of npm and PyPI go by its name, and none of them is known to be of its project",
    "remote": "it is a service at an address of its vendor's, and no program that a sandbox could run",
}
PLACE = pathlib.Path("/var/lib/mcp-gateway")
# `github/owner/repository`, and nothing that could be another path or an option.
GITHUB = re.compile(r"github/([A-Za-z0-9][\w.-]*)/([A-Za-z0-9_][\w.-]*)")
# Runs everything as the user of the sandbox: servers are programs of others.
AS_USER = ("setpriv", "--reuid=user", "--regid=user", "--init-groups", "--no-new-privs", "--")


class ConfigError(Exception):
    """A configuration that cannot be served, in words for whoever wrote it."""


@dataclasses.dataclass
class Server:
    """A server that can be installed and run."""

    name: str
    folder: pathlib.Path
    # Commands that install it, each as a list of words, run in the folder.
    install: list
    # Command that runs it; `None` where it is read from the package that was installed.
    command: list | None
    arguments: list = dataclasses.field(default_factory=list)
    env: dict = dataclasses.field(default_factory=dict)
    cwd: pathlib.Path = pathlib.Path("/home/user")

    def words(self):
        """The command, once it is installed."""
        return [*(self.command or [npm_program(self.folder)]), *self.arguments]


def of_config(config):
    """The servers of `{name: options}`; refuses all of it if one cannot be had."""
    if not isinstance(config, dict):
        raise ConfigError("the configuration is not an object of servers")
    return [of_name(name, options) for name, options in config.items()]


def of_name(name, options):
    if not isinstance(options, dict):
        raise ConfigError(f"the options of `{name}` are not an object")
    if name.startswith("github/"):
        return of_github(name, options)
    entry = CATALOGUE.get(name)
    if entry is None:
        raise ConfigError(f"`{name}` is not available here: {reason(name)}; `mcp-gateway catalogue` in a sandbox lists what is")
    return of_package(name, entry, options)


def reason(name):
    """Why a server cannot be had, and how it may be all the same."""
    refused = REFUSED.get(name)
    if refused is None:
        return 'it is no server of the catalogue, and not of the form "github/owner/repository"'
    why = REASONS.get(refused["why"], refused["why"])
    source = refused.get("source")
    return f'{why} (its source: "github/{source}", which runs with a `runCmd` if sandboxes have what it needs)' if source else why


def of_package(name, entry, options):
    """A server of the catalogue, with its options as arguments and variables."""
    folder = PLACE / "packages" / name
    arguments = list(entry.get("arguments", []))
    for flag, option in entry.get("flags", {}).items():
        if option in options:
            arguments += [flag, text(options[option])]
    for flag, option in entry.get("each", {}).items():
        for value in options.get(option, []):
            arguments += [flag, text(value)]
    arguments += [text(value) for value in options.get(entry.get("list"), [])]
    env = {variable: text(options[option]) for variable, option in entry.get("env", {}).items() if option in options}
    if "npm" in entry:
        package = f"{entry['npm']}@{entry['version']}"
        install = [["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", package]]
        return Server(name, folder, install, None, arguments, env)
    python = str(folder / "venv/bin/python")
    install = [
        ["uv", "venv", "--quiet", "--allow-existing", "--python", "/usr/bin/python3", str(folder / "venv")],
        ["uv", "pip", "install", "--quiet", "--python", python, f"{entry['pypi']}=={entry['version']}", *entry.get("with", [])],
    ]
    return Server(name, folder, install, [str(folder / "venv/bin" / entry["pypi"])], arguments, env)


def of_github(name, options):
    """A repository that says itself how it is installed and run. The SDKs spell the options in two ways."""
    parts = GITHUB.fullmatch(name)
    if not parts or ".." in name:
        raise ConfigError(f"`{name}` is not of the form github/owner/repository")
    run = options.get("runCmd") or options.get("run_cmd")
    if not run:
        raise ConfigError(f"`{name}` has no `runCmd`, which says how it is run")
    owner, repository = parts.groups()
    folder = PLACE / "github" / owner / repository
    prepare = options.get("installCmd") or options.get("install_cmd")
    install = [["git", "clone", "--quiet", "--depth=1", f"https://github.com/{owner}/{repository}", str(folder)]]
    if prepare:
        install.append(["bash", "-l", "-c", prepare])
    env = {key: text(value) for key, value in (options.get("envs") or {}).items()}
    return Server(name, folder, install, ["bash", "-l", "-c", f"exec {run}"], [], env, folder)


def text(value):
    """An option as a word."""
    return value if isinstance(value, str) else json.dumps(value)


def npm_program(folder):
    """The program of the one package that was asked for."""
    dependencies = json.loads((folder / "package.json").read_text())["dependencies"]
    package = folder / "node_modules" / next(iter(dependencies))
    program = json.loads((package / "package.json").read_text())["bin"]
    if isinstance(program, dict):
        short = package.name
        program = program.get(short) or next(iter(program.values()))
    return str(package / program)
