import os

for name, value in os.__dict__.get("_skep_saved", {}).items():
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
os._skep_saved = {}
