"""What every bomb starts with."""

import errno
import os
import sys
import time


def say(word, text):
    print(word, text, flush=True)
    # The limit stays reached for a moment: the agent must answer now.
    time.sleep(1)


def hold(reason):
    say("HELD", reason)
    sys.exit(0)


def escape(evidence):
    say("ESCAPED", evidence)
    sys.exit(0)
