"""What every generation of the Python SDK can do, in one list of checks.

Run by `conformance/run` in an environment per generation, without a test framework: the packages are what is tested,
and some of them are older than any framework that this machine would install beside them.
"""

import asyncio
import importlib.metadata
import inspect
import json
import os
import ssl
import sys
import threading
import time
import traceback
import urllib.request

import e2b_code_interpreter

BASE = importlib.metadata.version("e2b")
INTERPRETER = importlib.metadata.version("e2b-code-interpreter")
E2B = tuple(map(int, BASE.split(".")))
MODE = os.environ.get("CONFORMANCE_MODE", "domain")
TEMPLATE = "code-interpreter-slim"
# Before the interpreters knew an address for all sandboxes, they knew names below a domain alone.
BY_NAME_ALONE = MODE == "url" and tuple(map(int, INTERPRETER.split("."))) < (2, 9)
IS_FIRST = E2B < (2,)
# Each check has this long.
DEADLINE = 60

checks = []


def check(feature, since=(1, 0), interpreter=False):
    """A check of a feature that the SDK has since a version."""

    def add(body):
        checks.append((feature, body, since, interpreter))
        return body

    return add


def create(**options):
    """A sandbox, as the README of that generation makes one."""
    made = e2b_code_interpreter.Sandbox
    options = {"template": TEMPLATE, "timeout": 120, **options}
    return made(**options) if IS_FIRST else made.create(**options)


async def create_async(**options):
    return await e2b_code_interpreter.AsyncSandbox.create(template=TEMPLATE, timeout=120, **options)


def plain(sandbox_id):
    """The first releases say `<sandbox>-<client>`."""
    return sandbox_id.split("-")[0]


def fetch(url, data=None, headers=None):
    """One request beside the SDK."""
    context = ssl.create_default_context() if url.startswith("https:") else None
    request = urllib.request.Request(url, data=data, headers=headers or {})
    with urllib.request.urlopen(request, timeout=20, context=context) as answer:
        return answer.read()


def eventually(look, seconds=10):
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return seen


def raised(call, *arguments, **options):
    try:
        value = call(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - which one is what the checks ask
        return error
    raise AssertionError(f"expected an error, got {value!r}")


@check("generation.create")
def _(box):
    assert box.sandbox_id and (IS_FIRST or box.sandbox_domain)


@check("generation.running")
def _(box):
    assert box.is_running()


@check("generation.info", since=(1, 2))
def _(box):
    info = box.get_info()
    assert plain(info.sandbox_id) == plain(box.sandbox_id)


@check("generation.list")
def _(box):
    listed = box.list()
    found = listed if isinstance(listed, list) else listed.next_items()
    assert plain(box.sandbox_id) in [plain(entry.sandbox_id) for entry in found]


@check("generation.timeout")
def _(box):
    box.set_timeout(150)


@check("generation.connect")
def _(box):
    again = type(box).connect(box.sandbox_id)
    assert again.commands.run("echo again").stdout == "again\n"


@check("generation.host")
def _(box):
    serving = box.commands.run("python3 -m http.server 8123 --directory /usr/share", background=True)
    # With two addresses instead of a domain the vendor's names are all that an SDK can tell.
    headers = {"E2b-Sandbox-Id": plain(box.sandbox_id), "E2b-Sandbox-Port": "8123"}
    by_name = (f"https://{box.get_host(8123)}/", {})
    url, headers = by_name if MODE == "domain" else (os.environ["E2B_SANDBOX_URL"], headers)

    def answers():
        try:
            return b"Directory listing" in fetch(url, headers=headers)
        except OSError:
            return False

    eventually(answers)
    serving.kill()


@check("generation.run")
def _(box):
    result = box.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0)


@check("generation.exit")
def _(box):
    error = raised(box.commands.run, "echo told; exit 3")
    assert (type(error).__name__, error.exit_code, error.stdout) == ("CommandExitException", 3, "told\n")
    assert raised(box.commands.run, "setsid sh -c 'exit 4'").exit_code == 4


@check("generation.options")
def _(box):
    said = []
    script = 'echo "$A $(pwd) $(id -un)"'
    box.commands.run(script, envs={"A": "1"}, cwd="/tmp", user="root", on_stdout=said.append)
    assert said == ["1 /tmp root\n"]


@check("generation.background")
def _(box):
    handle = box.commands.run("sleep 100", background=True)
    assert handle.pid in [process.pid for process in box.commands.list()]
    assert box.commands.connect(handle.pid).pid == handle.pid
    assert box.commands.kill(handle.pid) and not box.commands.kill(handle.pid)


@check("generation.stdin")
def _(box):
    # From 1.8 on a command has no input unless it is asked for.
    options = {"stdin": True} if "stdin" in inspect.signature(box.commands.run).parameters else {}
    handle = box.commands.run("read line; echo got $line", background=True, **options)
    box.commands.send_stdin(handle.pid, "it\n")
    assert handle.wait().stdout == "got it\n"


@check("generation.late")
def _(box):
    # Some releases give their HTTP client the same time as the server, and tell whichever of the two was first.
    error = raised(box.commands.run, "sleep 30.25", timeout=2)
    assert type(error).__name__ in ("TimeoutException", "ReadTimeout"), repr(error)
    # Whoever was first, the server has ended the command.
    eventually(lambda: not [process for process in box.commands.list() if "sleep 30.25" in process.args])


@check("generation.terminal")
def _(box):
    from e2b import PtySize

    seen = bytearray()
    handle = box.pty.create(PtySize(rows=20, cols=70))
    box.pty.resize(handle.pid, PtySize(rows=21, cols=71))
    box.pty.send_stdin(handle.pid, b"stty size; exit\n")
    handle.wait(on_pty=seen.extend)
    assert b"21 71" in seen, bytes(seen)


@check("generation.files")
def _(box):
    box.files.write("kept/a.txt", "naïve 🐝")
    assert box.files.read("kept/a.txt") == "naïve 🐝"
    assert bytes(box.files.read("kept/a.txt", format="bytes")) == "naïve 🐝".encode()
    assert b"".join(box.files.read("kept/a.txt", format="stream")) == "naïve 🐝".encode()


@check("generation.write_many", since=(1, 1))
def _(box):
    write = getattr(box.files, "write_files", box.files.write)
    files = write([{"path": "many/a", "data": "1"}, {"path": "many/b", "data": b"2"}])
    assert [file.path for file in files] == ["/home/user/many/a", "/home/user/many/b"]


@check("generation.directories")
def _(box):
    assert box.files.make_dir("made") and not box.files.make_dir("made")
    box.files.write("made/old", "1")
    assert box.files.rename("made/old", "made/new").path == "/home/user/made/new"
    assert [entry.name for entry in box.files.list("made")] == ["new"]
    box.files.remove("made/new")
    assert not box.files.exists("made/new") and box.files.exists("made")


@check("generation.missing")
def _(box):
    error = raised(box.files.read, "/nope")
    assert "NotFound" in type(error).__name__, repr(error)


@check("generation.watch")
def _(box):
    box.files.make_dir("watched")
    handle = box.files.watch_dir("watched")
    box.files.write("watched/new.txt", "1")
    names = []
    eventually(lambda: names.extend(event.name for event in handle.get_new_events()) or "new.txt" in names)
    handle.stop()


@check("generation.links")
def _(box):
    box.files.write("linked.txt", "by link")
    if MODE == "domain":
        assert fetch(box.download_url("linked.txt")) == b"by link"
        return
    # The link names the address of all sandboxes: which one is meant, its signature or token says.
    url = os.environ["E2B_SANDBOX_URL"] + "/files?path=linked.txt"
    headers = {"E2b-Sandbox-Id": plain(box.sandbox_id), "E2b-Sandbox-Port": "49983"}
    assert fetch(url, headers={**headers, "X-Access-Token": box._envd_access_token or ""}) == b"by link"


@check("generation.metrics", since=(1, 10))
def _(box):
    assert isinstance(box.get_metrics(), list)


@check("generation.code", interpreter=True)
def _(box):
    assert box.run_code("kept = 6 * 7\nkept").text == "42"
    assert box.run_code("kept + 1").text == "43"


@check("generation.code_streams", interpreter=True)
def _(box):
    out, err, results = [], [], []
    box.run_code(
        "import sys\nprint('out')\nprint('err', file=sys.stderr)\n'value'",
        on_stdout=lambda message: out.append(message.line),
        on_stderr=lambda message: err.append(message.line),
        on_result=results.append,
    )
    assert ("".join(out), "".join(err), len(results)) == ("out\n", "err\n", 1)


@check("generation.code_errors", interpreter=True)
def _(box):
    error = box.run_code("1 / 0").error
    assert (error.name, error.value) == ("ZeroDivisionError", "division by zero")
    assert "1 / 0" in error.traceback


@check("generation.code_languages", interpreter=True)
def _(box):
    assert box.run_code("console.log([1, 2].length)", language="js").logs.stdout == ["2\n"]
    assert box.run_code("echo $A", language="bash", envs={"A": "set"}).logs.stdout == ["set\n"]


@check("generation.code_charts", interpreter=True)
def _(box):
    drawing = "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])\nplt.title('t')\nplt.show()"
    result = box.run_code(drawing).results[0]
    assert result.png and (E2B < (1, 0, 2) or result.chart.title == "t")


@check("generation.contexts", interpreter=True)
def _(box):
    context = box.create_code_context(cwd="/tmp")
    box.run_code("own = 1", context=context)
    assert box.run_code("own, __import__('os').getcwd()", context=context).text == "(1, '/tmp')"
    assert box.run_code("own").error.name == "NameError"


@check("generation.code_late", interpreter=True)
def _(box):
    error = raised(box.run_code, "while True: pass", timeout=2)
    assert type(error).__name__ == "TimeoutException", repr(error)
    assert box.run_code("1 + 1").text == "2"


@check("generation.variables")
def _(_box):
    with create(envs={"GIVEN": "yes"}, metadata={"kind": "generation"}) as own:
        assert own.commands.run("echo $GIVEN").stdout == "yes\n"


@check("generation.async")
def _(_box):
    async def through():
        box = await create_async()
        try:
            await box.files.write("a.txt", "kept")
            handle = await box.commands.run("cat a.txt", background=True)
            assert (await handle.wait()).stdout == "kept"
            if not BY_NAME_ALONE:
                assert (await box.run_code("6 * 7")).text == "42"
        finally:
            await box.kill()

    asyncio.run(asyncio.wait_for(through(), DEADLINE))


# The last: it ends the sandbox of all.
@check("generation.kill")
def _(box):
    # The first generation does not say whether there was anything to kill.
    killed = [box.kill(), box.kill()]
    assert killed == ([None, None] if IS_FIRST else [True, False])
    assert not box.is_running()


def run(body, box):
    """Why a check failed, or nothing."""
    outcome = []

    def attempt():
        try:
            body(box)
        except BaseException:  # noqa: BLE001 - all of it is told
            outcome.append(traceback.format_exc())
        else:
            outcome.append("")

    # A call that hangs must not hold up the rest.
    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(DEADLINE)
    return outcome[0] if outcome else f"not done within {DEADLINE} s"


def record(feature, outcome, seconds, detail):
    line = {
        "sdk": "generation python",
        "version": f"{INTERPRETER} ({BASE})",
        "generation": "all",
        "mode": MODE,
        "feature": feature,
        "case": f"{feature} works as that release has it",
        "outcome": outcome,
        "seconds": seconds,
        "detail": detail,
    }
    if os.environ.get("CONFORMANCE_RESULTS"):
        with open(os.environ["CONFORMANCE_RESULTS"], "a") as results:
            results.write(json.dumps(line) + "\n")
    elif outcome != "absent":
        print(feature, outcome, detail, flush=True)


def main():
    pattern = os.environ.get("CONFORMANCE_PATTERN", "")
    wanted = [word.strip() for word in pattern.split(" or ")]
    chosen = [each for each in checks if any(word in each[0] for word in wanted)]
    box = create() if chosen else None
    for feature, body, since, interpreter in chosen:
        if E2B < since or (interpreter and BY_NAME_ALONE):
            record(feature, "absent", 0, "")
            continue
        start = time.monotonic()
        detail = run(body, box)
        record(feature, "failed" if detail else "passed", round(time.monotonic() - start, 3), detail)
    # Not by the usual way out: threads that hang would be waited for.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
