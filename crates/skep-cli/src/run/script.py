def __skep_run__():
    """Runs a file as `python FILE` does, in the namespace of the kernel."""
    import json
    import os
    import sys

    from IPython import get_ipython

    shell = get_ipython()
    order = json.loads(os.environ.pop("_RUN_ORDER"))
    path = order["path"]
    del shell.user_ns["__skep_run__"]
    sys.argv[:] = [path, *order["arguments"]]
    sys.path.insert(0, os.path.dirname(path))
    shell.user_ns["__file__"] = path
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    except SyntaxError:
        shell.showsyntaxerror(path)
        return
    try:
        exec(code, shell.user_ns)
    except SystemExit:
        shell.showtraceback(exception_only=True)
    except BaseException as error:
        # Without this very frame, which is none of the file's.
        shell.showtraceback((type(error), error, error.__traceback__.tb_next))


__skep_run__()
