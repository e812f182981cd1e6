"""Runs pieces of code that come in lines of hexadecimal words, and tells what variables are."""

import os
import sys

own = {"__builtins__": __builtins__}
for line in sys.stdin:
    code, *names = [bytes.fromhex(word[1:]).decode() for word in line.split()]
    before = set(own)
    exec(code, own)
    assert set(own) == before, set(own) - before
    values = [os.environ.get(name) for name in names] + [os.getcwd()]
    words = ["-" if value is None else "x" + os.fsencode(value).hex() for value in values]
    print(*words, flush=True)
