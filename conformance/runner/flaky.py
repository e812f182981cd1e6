"""Cases that fail in the crowd and pass alone: `docs/adr/0023-flaky-cases.md`."""

import argparse
import json
import sys

# Failures above this number are no accident, and nothing is run again.
MOST = 5
# What makes two outcomes those of one case.
IDENTITY = ("sdk", "version", "generation", "mode", "feature", "case")


class Part:
    """One suite in one mode, and what came of it."""

    def __init__(self, suite, mode, target, results):
        self.suite, self.mode, self.target, self.results = suite, mode, target, results

    def run(self, options):
        """Runs the cases; says whether the suite came to its end."""
        return self.suite.run(self.target, self.results, self.mode, options)

    @property
    def outcomes(self):
        return read(self.results)

    @property
    def failed(self):
        return [outcome for outcome in self.outcomes if outcome["outcome"] == "failed"]

    def run_failed(self, options):
        """Runs the features that failed again, alone, and notes what passes now."""
        features = sorted({outcome["feature"] for outcome in self.failed})
        print(f"again, alone: {', '.join(features)} ({self.suite.name}, {self.mode} mode)", file=sys.stderr)
        again = Part(self.suite, self.mode, self.target, self.results.with_suffix(".again"))
        again.run(argparse.Namespace(**{**vars(options), "pattern": " or ".join(features)}))
        passed = {identity(outcome) for outcome in again.outcomes if outcome["outcome"] == "passed"}
        passed -= {identity(outcome) for outcome in again.failed}
        noted = [after(outcome, passed) for outcome in self.outcomes]
        self.results.write_text("".join(json.dumps(outcome) + "\n" for outcome in noted))


def run_again(parts, options):
    """Runs the failed cases of all parts again, one part after the other, if they are few."""
    if 0 < sum(len(part.failed) for part in parts) <= MOST:
        for part in parts:
            if part.failed:
                part.run_failed(options)


def after(outcome, passed):
    """The outcome of a case once it is known what passed alone."""
    if outcome["outcome"] != "failed" or identity(outcome) not in passed:
        return outcome
    return {**outcome, "outcome": "passed", "detail": "", "flaky": outcome["detail"]}


def identity(outcome):
    return tuple(outcome[part] for part in IDENTITY)


def read(results):
    # Not `splitlines`: the text of a failure may hold other separators.
    lines = results.read_text().split("\n") if results.exists() else []
    return [json.loads(line) for line in lines if line]
