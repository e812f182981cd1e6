"""Fetches servers, once each."""

import os
import pathlib
import shutil
import subprocess

from . import servers

# What package managers are told of mirrors and certificates, beside what a program needs.
KEPT = ("PATH", "LANG", "TERM", "SSL_", "REQUESTS_", "CURL_", "NODE_", "npm_config_", "NPM_CONFIG_", "UV_", "PIP_", "HTTP", "HTTPS", "NO_PROXY", "http", "https", "no_proxy", "ALL_PROXY", "all_proxy")


# Caches of whoever called belong to that user, and servers are fetched as another.
OF_THE_CALLER = ("UV_CACHE_DIR", "PIP_CACHE_DIR", "npm_config_cache")


def environment():
    """The variables of everything that the gateway runs: not its own token."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT) and name not in OF_THE_CALLER}
    return {**kept, "HOME": "/home/user", "USER": "user", "LOGNAME": "user", "UV_LINK_MODE": "copy"}


def install(server, log):
    """Makes a server ready to be run; what is there already is left as it is."""
    done = server.folder / ".installed"
    if done.exists():
        return
    shutil.rmtree(server.folder, ignore_errors=True)
    run([*servers.AS_USER, "mkdir", "-p", server.folder.parent], "/", log)
    if server.install[0][0] != "git":
        run([*servers.AS_USER, "mkdir", server.folder], "/", log)
    for number, words in enumerate(server.install):
        # A repository is there after the first command.
        folder = server.folder if server.folder.exists() else server.folder.parent
        run([*servers.AS_USER, *words], folder, log, server.env if number else {})
    run([*servers.AS_USER, "touch", done], "/", log)


def run(words, folder, log, env=None):
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**environment(), **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    log.write(done.stdout)
    log.flush()
    if done.returncode != 0:
        last = [line for line in done.stdout.splitlines() if line.strip()][-3:]
        program = pathlib.Path(str(words[len(servers.AS_USER)])).name
        raise servers.ConfigError(f"`{program}` failed with {done.returncode}: {' | '.join(last)}")
