"""One suite: an SDK and the cases that drive it, as a process of its own."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
# What decides where an SDK connects must come from the runner alone.
CLIENT_VARIABLES = ("E2B_", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "NODE_TEST_CONTEXT", "PYTEST_")


class Suite:
    """An SDK and the cases that drive it."""

    # The column of the matrix: of two generations the cases are the same.
    generation = "all"
    # How sandboxes are reached, in each of which it runs.
    modes = ("url", "domain")
    # Templates that it needs beside what `skep up` builds.
    templates = ()
    # Exit codes of a process that came to its end, whatever it found.
    ended_codes = (0, 1)

    def install(self):
        raise NotImplementedError

    def command(self, pattern):
        raise NotImplementedError

    def variables(self):
        return {}

    def run(self, target, results, mode, options):
        """Runs all cases; the outcome of each is in the results file. Says whether it came to its end."""
        done = self.process(target, self.command(options.pattern), {
            "CONFORMANCE_RESULTS": str(results),
            "CONFORMANCE_MODE": mode,
            "CONFORMANCE_LANGUAGE": options.language or "",
            "CONFORMANCE_WHOLE": "1" if options.whole else "",
            "CONFORMANCE_PATTERN": options.pattern or "",
        })
        ended = done.returncode in self.ended_codes
        if not ended:
            print(f"\n{self.name} {self.generation} ended with {done.returncode}:\n{done.stdout}", file=sys.stderr)
        return ended

    def process(self, target, command, more):
        """Runs a client of the server to its end."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(CLIENT_VARIABLES)}
        return subprocess.run(
            [*target.prefix, *command],
            cwd=self.folder,
            env={**kept, **target.variables, **self.variables(), **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def matches(pattern, feature):
    """Whether a pattern of the command line asks for this."""
    return not pattern or any(word.strip() in feature for word in pattern.split(" or "))
