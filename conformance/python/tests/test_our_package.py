"""What our own package has beyond the official one it extends."""

import http.server
import json
import os
import threading

import pytest

import web
from flavour import eventually
from package import OURS

if OURS:
    import skep
    from skep import Limits, NotSkepError

pytestmark = [pytest.mark.ours]
feature = pytest.mark.feature


async def failed(interpreter, code, **options):
    """Runs code that must fail, and returns its execution."""
    execution = await interpreter.run(code, **options)
    assert execution.error is not None, execution
    return execution


@pytest.fixture
def own(sdk):
    """The class of sandboxes of our package."""
    return skep.Sandbox if sdk.name == "sync" else skep.AsyncSandbox


@feature("skep.receipts")
async def test_an_execution_has_a_receipt(interpreter):
    execution = await interpreter.run("held = bytearray(64 << 20); sum(range(10**6))")
    receipt = execution.receipt
    assert receipt.outcome == "ok"
    assert receipt.wall > 0 and receipt.cpu > 0
    assert receipt.peak_memory > 64 << 20
    assert execution.text == "499999500000" and execution.id


@feature("skep.limits")
async def test_limits_of_time_are_kept_and_variables_stay(interpreter):
    await interpreter.run("kept = 1")
    for limits in (Limits(time=0.3), Limits(cpu=0.3)):
        execution = await failed(interpreter, "while True: pass", limits=limits)
        assert (execution.error.kind, execution.receipt.outcome) == ("timeout", "timeout")
    assert (await interpreter.run("kept")).text == "1"


@feature("skep.limits")
async def test_memory_is_a_wall_and_the_next_execution_says_what_was_lost(interpreter):
    context = await interpreter.context()
    code = "block = bytearray(400 << 20); block[::4096] = b'x' * len(block[::4096])"
    execution = await failed(interpreter, code, limits=Limits(memory="128M"), context=context)
    assert execution.error.kind == "out_of_memory"
    assert execution.receipt.peak_memory <= 128 << 20
    after = await interpreter.run("1", context=context)
    assert after.restarted == execution.error.kind


@feature("skep.limits")
async def test_a_limit_that_is_none_is_refused_before_anything_is_sent():
    for wrong, words in [({"memory": "12 apples"}, "'512M'"), ({"time": 0}, "above 0"), ({"memory": -1}, "above 0")]:
        with pytest.raises(ValueError, match=words):
            Limits(**wrong)
    assert Limits(time=1, cpu=2, memory="1.5G").to_wire() == {
        "time_seconds": 1,
        "cpu_seconds": 2,
        "memory_bytes": 3 << 29,
    }


@feature("skep.kinds")
@pytest.mark.parametrize(
    "code, kind", [("1 +", "syntax"), ("1 / 0", "runtime"), ("import os; os._exit(3)", "kernel_died")]
)
async def test_an_error_has_its_kind_also_in_the_callback(interpreter, code, kind):
    told = []
    execution = await failed(interpreter, code, on_error=told.append)
    assert execution.error.kind == kind
    assert [error.kind for error in told] == [kind]
    assert execution.error.exit_status == (3 if kind == "kernel_died" else None)


@feature("skep.secrets")
async def test_secrets_of_an_execution_and_of_a_variable_are_masked(interpreter):
    context = await interpreter.context(secrets=["of-the-context"])
    execution = await interpreter.run(
        "import os; print('of-the-context', 'of-the-run', os.environ['KEY'])",
        context=context,
        secrets=["of-the-run"],
        envs={"KEY": "of-a-variable"},
        secret_envs=["KEY"],
    )
    assert "".join(execution.logs.stdout) == "*** *** ***\n"


@feature("skep.secrets")
async def test_secrets_of_a_sandbox_are_masked_in_all_that_its_code_shows(sdk, own):
    options = {"timeout": 60, "envs": {"KEY": "value-of-the-key"}}
    made = await sdk.call(own.create, "code-interpreter-slim", **options, secrets=["KEY"])
    try:
        execution = await sdk.call(made.run_code, "import os; os.environ['KEY']")
        assert execution.text == "'***'" or execution.text == "***"
    finally:
        await sdk.call(made.kill)
    with pytest.raises(ValueError, match="NOPE is not there"):
        await sdk.call(own.create, "code-interpreter-slim", **options, secrets=["NOPE"])


@feature("skep.interrupt")
async def test_an_execution_is_listed_and_interrupted(sdk, interpreter):
    begun = []
    running = sdk.begin(interpreter.sandbox.run_code, "import time; time.sleep(300)", on_start=begun.append)
    await eventually(lambda: begun, "the start of the execution")
    listed = await sdk.call(interpreter.sandbox.executions)
    assert [(one.id, one.state) for one in listed] == [(begun[0], "running")]
    await sdk.call(interpreter.sandbox.interrupt, begun[0])
    execution = await running
    assert (execution.id, execution.error.kind) == (begun[0], "interrupted")
    error = await sdk.error(interpreter.sandbox.interrupt, begun[0])
    assert type(error).__name__ == "NotFoundException", repr(error)


@feature("skep.input")
async def test_code_asks_and_is_answered(interpreter):
    asked = []

    def answer(request):
        asked.append((request.prompt, request.password))
        return "Ada" if len(asked) == 1 else None

    code = "import getpass\nname = input('Name? ')\ntry: getpass.getpass('Word? ')\nexcept EOFError: name += '!'\nname"
    assert (await interpreter.run(code, on_input=answer)).text == "Ada!"
    assert asked == [("Name? ", False), ("Word? ", True)]


@feature("skep.contexts")
async def test_a_context_is_forked_and_rolled_back(sdk, interpreter):
    context = await interpreter.context()
    await interpreter.run("rows = [1, 2, 3]", context=context)
    point = await sdk.call(context.checkpoint)
    child = await sdk.call(context.fork)
    await interpreter.run("rows.clear()", context=context)
    assert (await interpreter.run("rows", context=child)).text == "[1, 2, 3]"
    await sdk.call(context.rollback, point)
    assert (await interpreter.run("rows", context=context)).text == "[1, 2, 3]"
    assert [(one.id, one.current, one.lost) for one in await sdk.call(context.checkpoints)] == [(point.id, True, None)]
    await sdk.call(context.remove_checkpoint, point)
    error = await sdk.error(context.rollback, point)
    assert type(error).__name__ == "NotFoundException", repr(error)
    ids = [one.id for one in await sdk.call(interpreter.sandbox.list_code_contexts)]
    assert {context.id, child.id} <= set(ids)


@feature("skep.notebook")
async def test_a_context_is_saved_as_a_notebook(sdk, interpreter, tmp_path):
    context = await interpreter.context()
    await interpreter.run("print('kept')", context=context)
    notebook = await sdk.call(interpreter.sandbox.notebook, context)
    saved = json.loads(notebook.save(tmp_path / "session.ipynb").read_text())
    assert (saved["nbformat"], saved["nbformat_minor"]) == (4, 5)
    assert ["".join(cell["source"]) for cell in notebook.cells if cell["cell_type"] == "code"] == ["print('kept')"]


@feature("skep.record")
async def test_the_record_tells_of_a_sandbox_after_its_end(sdk, own):
    made = await sdk.call(own.create, "code-interpreter-slim", timeout=60, metadata={"of": "record"})
    record = await sdk.call(made.record)
    assert (record.state, record.end_reason, record.metadata) == ("running", None, {"of": "record"})
    assert await sdk.call(made.requests) == []
    await sdk.call(made.kill)
    record = await sdk.call(made.record)
    assert (record.state, record.end_reason) == ("ended", "killed")
    assert record.usage.cpu > 0 and record.started_at < record.end_at
    error = await sdk.error(own.record_of, "i00000000000000000000")
    assert "i00000000000000000000" in str(error)


@feature("skep.snapshots")
@pytest.mark.new_only
@pytest.mark.deadline(180)
async def test_a_sandbox_is_rolled_back_and_its_snapshots_are_a_tree(sdk, own):
    made = await sdk.call(own.create, "code-interpreter-slim", timeout=170)
    try:
        await sdk.call(made.files.write, "/home/user/kept", "first")
        first = await sdk.call(made.create_snapshot)
        await sdk.call(made.files.write, "/home/user/kept", "second")
        second = await sdk.call(made.create_snapshot)
        resumed = await sdk.call(made.rollback, first.snapshot_id)
        assert resumed.kept_in == "checkpoint" and resumed.lost == ["tcp_connections"]
        assert await sdk.call(made.files.read, "/home/user/kept") == "first"
        third = await sdk.call(made.create_snapshot)
        roots = await sdk.call(made.snapshot_tree)
        assert [root.snapshot_id for root in roots] == [first.snapshot_id]
        assert [child.snapshot_id for child in roots[0].children] == [second.snapshot_id, third.snapshot_id]
        copies = await sdk.call(made.fork, timeout=60)
        assert [type(copy) for copy in copies] == [own], copies
        await sdk.call(copies[0].kill)
    finally:
        await sdk.call(made.kill)


class NoSkep(http.server.BaseHTTPRequestHandler):
    """Answers as servers do that are not Skep: the same sentence to whoever asks for its health, 404 to the rest."""

    def do_GET(self):
        body = b"Health check successful" if self.path == "/health" else b'{"code": 404, "message": "no such path"}'
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def stranger():
    """A server that is not Skep."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), NoSkep)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@feature("skep.not_skep")
async def test_the_first_extra_on_another_server_is_an_error(sdk, own, interpreter, stranger):
    """The API is another's; the sandbox behind it runs official calls as before."""
    sandbox = interpreter.sandbox
    config = sandbox.connection_config
    mine, config.api_url = config.api_url, stranger
    try:
        for method, arguments, options in [
            (sandbox.run_code, ["1"], {"limits": Limits(time=1)}),
            (sandbox.run_code, ["1"], {"secrets": ["not-to-be-told"]}),
            (sandbox.run_code, ["1"], {"on_start": print}),
            (sandbox.executions, [], {}),
            (sandbox.interrupt, ["nobody"], {}),
            (sandbox.requests, [], {}),
            (sandbox.snapshot_tree, [], {}),
            (sandbox.record, [], {}),
        ]:
            error = await sdk.error(method, *arguments, **options)
            assert isinstance(error, NotSkepError), f"{method}: {error!r}"
            assert stranger in str(error)
        assert (await interpreter.run("6 * 7")).text == "42"
    finally:
        config.api_url = mine
    options = {"api_url": stranger, "api_key": "e2b_" + "0" * 40, "envs": {"A": "secret value"}}
    error = await sdk.error(own.create, **options, secrets=["A"])
    assert isinstance(error, NotSkepError), repr(error)


@feature("skep.not_skep")
async def test_what_another_server_did_not_say_raises_and_is_not_empty():
    from e2b_code_interpreter.models import Execution, ExecutionError

    from skep.run import Run

    official = Execution(error=ExecutionError("ValueError", "no", ""))
    execution = Run("https://api.example.com", {}).execution_of(official)
    with pytest.raises(NotSkepError, match="receipt"):
        execution.receipt
    with pytest.raises(NotSkepError, match="kind"):
        execution.error.kind
    assert execution.error.name == "ValueError"


@feature("skep.local")
@pytest.mark.deadline(180)
async def test_a_server_of_this_host_is_found_or_started(sdk, own, monkeypatch, tmp_path):
    executable = os.environ.get("CONFORMANCE_EXECUTABLE")
    if executable is None or os.geteuid() != 0:
        pytest.skip("starting a server needs its executable and root")
    if web.API_URL:
        named = await sdk.call(own.local, "code-interpreter-slim", timeout=30)
        assert named.connection_config.api_url == web.API_URL
        await sdk.call(named.kill)
    for name in ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    # Nobody listens there, so one is started.
    monkeypatch.setenv("SKEP_LISTEN", "127.0.0.1:1")
    (tmp_path / "skep").symlink_to(executable)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SKEP_CACHE_DIR", os.environ["CONFORMANCE_CACHE"])
    made = await sdk.call(own.local, "code-interpreter-slim", timeout=60)
    server = skep.local_server()
    assert server.is_own and made.connection_config.api_url == server.url
    assert (await sdk.call(made.run_code, "6 * 7")).text == "42"
    assert skep.local_server() is server
    await sdk.call(server.stop)
    error = await sdk.error(made.run_code, "1")
    assert not isinstance(error, NotSkepError)
