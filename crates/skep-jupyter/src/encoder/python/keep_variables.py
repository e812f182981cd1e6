import os

kept = os.__dict__.setdefault("_skep_kept", {})
for name in [name for name in kept if name not in argument]:
    _, before = kept.pop(name)
    if before is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = before
for name, value in argument.items():
    old, before = kept.get(name, (None, os.environ.get(name)))
    if old != value:
        kept[name] = (value, before)
        os.environ[name] = value
