import os

names = {**os.__dict__.setdefault("_skep_saved", {}), **argument}
os._skep_saved = {name: os._skep_saved.get(name, os.environ.get(name)) for name in names}
os.environ.update(argument)
