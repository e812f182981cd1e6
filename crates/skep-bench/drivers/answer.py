"""What every driver has in common; it is put before each of them.

A driver says `{"ready": true}` on standard output, then reads the name of an action from each line of standard
input, does it once, and says how many seconds it took.
"""

import json
import sys
import time


def serve(actions):
    say({"ready": True})
    for line in sys.stdin:
        action = actions[line.strip()]
        start = time.perf_counter()
        # An action that has something to set up or to tidy gives the time it took itself.
        took = action()
        say({"seconds": time.perf_counter() - start if took is None else took})


def say(message):
    print(json.dumps(message), flush=True)
