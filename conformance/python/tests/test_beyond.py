"""What the interpreter gives beyond the contract: receipts, limits, kinds of errors, secrets. Not the SDKs' business, so once."""

import base64
import contextlib
import json
import re
import threading
import time
import types

import pytest

import web
from interpreters import LARGE_OUTPUT, LARGE_RESULT, TEMPLATE, Interpreter

feature = pytest.mark.feature
pytestmark = [pytest.mark.once]

PORT = 49999

# More than the disk has, without writing it.
FILL = """import os
with open('/home/user/full', 'wb') as file:
    os.remove(file.name)
    disk = os.statvfs('/home/user')
    os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize + (1 << 30))"""


class Raw:
    """A sandbox whose interpreter is spoken to without an SDK."""

    def __init__(self, **options):
        made = web.api("POST", "/v2/sandboxes", {"templateID": TEMPLATE, "timeout": 300, **options})
        assert made.status == 201, made.text
        self.reach(made.json)

    @classmethod
    def of(cls, made):
        """One that the API has made otherwise."""
        raw = cls.__new__(cls)
        raw.reach(made)
        return raw

    def reach(self, made):
        self.sandbox = types.SimpleNamespace(sandbox_id=made["sandboxID"])
        self.token = {"X-Access-Token": made["envdAccessToken"], "Content-Type": "application/json"}
        self.traffic_token = {"E2B-Traffic-Access-Token": made["trafficAccessToken"]}

    def call(self, method, path, body=None):
        return web.port(self.sandbox, PORT, path, self.token, method, body and json.dumps(body))

    def run(self, code, skep=None, **options):
        """All lines of an execution but signs of life."""
        answer = self.call("POST", "/execute", {"code": code, "skep": skep, **options})
        assert answer.status == 200, answer.text
        lines = [json.loads(line) for line in answer.text.splitlines()]
        return [line for line in lines if line["type"] != "keepalive"]

    def failed(self, code, skep=None):
        """The one error of an execution, and its receipt."""
        lines = self.run(code, skep)
        errors = [line for line in lines if line["type"] == "error"]
        assert len(errors) == 1, lines
        assert [line["type"] for line in lines[-3:]] == ["error", "receipt", "end_of_execution"]
        assert lines[-2]["outcome"] == errors[0]["kind"]
        return errors[0], lines[-2]

    def receipt(self, code):
        lines = self.run(code)
        assert not [line for line in lines if line["type"] == "error"], lines
        return lines[-2]

    def printed(self, code, skep=None, **options):
        return "".join(line["text"] for line in self.run(code, skep, **options) if line["type"] == "stdout")

    def peak_of_agent(self):
        """The most memory the sandbox's first process has had, in MiB."""
        return int(re.search(r"VmHWM:\s+(\d+)", self.printed("print(open('/proc/1/status').read())"))[1]) >> 10


@contextlib.contextmanager
def raw(**options):
    sandbox = Raw(**options)
    try:
        yield sandbox
    finally:
        web.api("DELETE", f"/sandboxes/{sandbox.sandbox.sandbox_id}")


@pytest.fixture(scope="module")
def plain():
    with raw() as sandbox:
        yield sandbox


@feature("interpreter.errors")
@pytest.mark.parametrize(
    "code, kind, lost",
    [
        ("1 +", "syntax", None),
        ("1 / 0", "runtime", None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", "interrupted", None),
        ("' ' * (1 << 62)", "out_of_memory", None),
        (FILL, "disk_full", None),
        ("import os; os._exit(3)", "kernel_died", "kernel_died"),
        ("import ctypes; ctypes.string_at(0)", "kernel_died", "kernel_died"),
        ("import os; os.kill(os.getpid(), 9)", "killed", "killed"),
        ("kept = bytearray(4 << 30)", "out_of_memory", "out_of_memory"),
    ],
)
def test_every_end_has_its_kind_and_the_next_execution_works(plain, code, kind, lost):
    error, _ = plain.failed(code)
    assert error["kind"] == kind
    after = plain.run("'alive'")
    assert [line["reason"] for line in after if line["type"] == "context_restarted"] == ([lost] if lost else [])
    assert [line["text"] for line in after if line["type"] == "result"] == ["alive"]


@feature("interpreter.timeouts")
@pytest.mark.parametrize(
    "limits, name",
    [({"time_seconds": 0.5}, "ExecutionTimeout"), ({"cpu_seconds": 0.3}, "CpuTimeLimitExceeded")],
)
def test_code_over_its_limit_is_interrupted_and_keeps_its_variables(plain, limits, name):
    plain.run("kept = 'kept'")
    error, receipt = plain.failed("while True: pass", {"limits": limits})
    assert (error["kind"], error["name"], receipt["outcome"]) == ("timeout", name, "timeout")
    assert plain.printed("print(kept)") == "kept\n"


@feature("interpreter.timeouts")
def test_code_that_does_not_yield_to_its_limit_loses_its_kernel(plain):
    error, _ = plain.failed("sum(range(10 ** 12))", {"limits": {"time_seconds": 0.5}})
    assert error["kind"] == "timeout" and "variables are lost" in error["traceback"]
    assert plain.run("1")[0] == {"type": "context_restarted", "reason": "interrupt_ignored"}


@feature("interpreter.death")
def test_a_limit_of_memory_is_a_wall_for_one_execution(plain):
    limits = {"limits": {"memory_bytes": 200 << 20}}
    error, receipt = plain.failed("kept = bytearray(400 << 20)", limits)
    assert (error["kind"], receipt["out_of_memory_kills"]) == ("out_of_memory", 1)
    assert 190 << 20 < receipt["peak_memory_bytes"] <= 200 << 20
    plain.receipt("kept = bytearray(400 << 20)")
    error, _ = plain.failed("1", limits)
    assert error["name"] == "MemoryLimitExceeded"
    plain.receipt("del kept")


@feature("interpreter.run")
def test_a_receipt_counts_what_children_did_and_what_was_written(plain):
    work = "b = bytearray(150 << 20); sum(range(10 ** 7))"
    receipt = plain.receipt(f"import subprocess\nsubprocess.run(['setsid', 'python3', '-c', '{work}']).returncode")
    assert receipt["peak_memory_bytes"] > 150 << 20 and receipt["cpu_us"] > 50_000
    receipt = plain.receipt("open('/home/user/file', 'wb').write(bytes(20 << 20)); None")
    assert receipt["written_bytes"] >= 20 << 20
    assert plain.receipt("1")["written_bytes"] < 1 << 20


@feature("interpreter.run")
def test_what_runs_can_be_looked_at(plain):
    running = threading.Thread(target=plain.run, args=("import time\nend = time.time() + 2\nwhile time.time() < end: pass",))
    running.start()
    try:
        deadline = time.monotonic() + 20
        while not (seen := [one for one in plain.call("GET", "/executions").json if one.get("cpu_us", 0) > 50_000]):
            assert time.monotonic() < deadline
        one = plain.call("GET", f"/executions/{seen[0]['id']}/usage").json
        assert one["state"] == "running" and one["memory_bytes"] > 1 << 20
    finally:
        running.join()
    assert plain.call("GET", f"/executions/{seen[0]['id']}/usage").status == 404


@feature("interpreter.run")
def test_not_even_root_gets_at_what_counts_and_limits(plain):
    root = "import subprocess\ndef root(c): return subprocess.run(['sudo', 'sh', '-c', c], capture_output=True, text=True)\n"
    assert plain.printed(root + "print(root('id -u').stdout)").strip() == "0"
    assert plain.printed(root + "print(root('ls -A /sys/fs/cgroup').stdout)").strip() == ""
    for kind in ["cgroup -o memory", "cgroup2"]:
        code = f"print(root('mount -t {kind} none /mnt').returncode != 0)"
        assert plain.printed(root + code).strip() == "True"
    # The agent holds the folders of the groups open.
    tries = "for f in /proc/1/fd/*; do mkdir $f/made && echo reached; echo 0 > $f && echo reached; done"
    assert plain.printed(root + f"print(root('{tries}').stdout)").strip() == ""


@feature("interpreter.refusals")
def test_what_is_not_understood_is_refused_without_being_shown(plain):
    for skep in [{"limts": {}}, {"secrets": "hunter2222"}, {"secrets": ["short"]}, {"limits": {"time_seconds": -1}}]:
        refused = plain.call("POST", "/execute", {"code": "1", "skep": skep})
        assert refused.status == 422 and "hunter2222" not in refused.text
    made = web.api("POST", "/v2/sandboxes", {"templateID": TEMPLATE, "skep": {"secretEnvs": ["NOT_THERE"]}})
    assert made.status == 400 and "NOT_THERE" in made.text


@feature("interpreter.environment")
def test_secrets_are_masked_wherever_code_shows_them():
    secret, marked = "tok-ä/+ 🐝-qXzW", "of-the-sandbox"
    skep = {"secrets": [marked], "secretEnvs": ["KEY"]}
    with raw(envVars={"KEY": secret}, skep=skep) as sandbox:
        code = "import os, json, base64, urllib.parse, sys\nk = os.environ['KEY']\nprint(k, repr(k), json.dumps(k))\n"
        code += "print(k.encode().hex(), urllib.parse.quote(k))\nprint(k, file=sys.stderr)\n{'key': k, k: [k]}"
        text = json.dumps(sandbox.run(code))
        assert "***" in text and "qXzW" not in text and secret.encode().hex() not in text
        # In pieces, one character at a time, and encoded behind something else.
        code = "for c in k: print(c, end='', flush=True)\nprint()\nprint(base64.b64encode(('user:' + k).encode()).decode())"
        lines = sandbox.printed(code).splitlines()
        assert lines[0] == "***"
        assert "***" in lines[1] and base64.b64encode(secret.encode()[3:-3]).decode()[4:-4] not in lines[1]
        error, _ = sandbox.failed(f"raise ValueError(k + ' and {marked}')")
        assert error["value"] == "*** and ***" and "qXzW" not in error["traceback"]
        sandbox.printed("given = 'of-an-execution'", {"secrets": ["of-an-execution"]})
        assert sandbox.printed("print(given)") == "***\n"
        assert sandbox.printed("print('nothing to hide')") == "nothing to hide\n"


@feature("interpreter.environment")
async def test_an_sdk_marks_variables_by_a_header(sdk):
    headers = {"X-Skep-Secret-Envs": "KEY"}
    interpreter = await Interpreter.create(sdk, envs={"KEY": "hunter2222", "A": "shown-1"}, headers=headers)
    try:
        execution = await interpreter.run("import os\nos.environ['KEY'] + os.environ['A']")
        assert execution.text == "***shown-1"
    finally:
        await interpreter.kill()


@feature("interpreter.stream")
def test_large_output_and_results_do_not_fill_the_agent():
    with raw() as sandbox:
        before = sandbox.peak_of_agent()
        sandbox.run(f"for _ in range({LARGE_OUTPUT} * 16): print('x' * 65535)")
        assert sandbox.peak_of_agent() < before + 20
        sandbox.run(f"'x' * ({LARGE_RESULT} << 20)", {"secrets": ["hunter2222"]})
        assert sandbox.peak_of_agent() < before + 2 * LARGE_RESULT + 20


# What whoever knows a sandbox's id would like to do to its contexts, from outside or from within.
CONTEXT_ROUTES = [("GET", "/contexts"), ("POST", "/contexts"), ("POST", "/contexts/{}/restart"), ("DELETE", "/contexts/{}")]

FROM_WITHIN = """import http.client, json
statuses = []
for method, path in json.loads(%r):
    connection = http.client.HTTPConnection(%r, 49999, timeout=20)
    connection.request(method, path, "{}", {"Content-Type": "application/json"})
    statuses.append(connection.getresponse().status)
print(json.dumps(statuses))"""


@feature("interpreter.contexts")
def test_the_id_of_a_sandbox_alone_opens_no_context(plain):
    context = plain.call("POST", "/contexts", {"language": "python"}).json["id"]
    plain.run("kept = 42", context_id=context)
    routes = [(method, path.format(context)) for method, path in CONTEXT_ROUTES]
    wrong = ({}, {"X-Access-Token": "0" * 64}, {"E2B-Traffic-Access-Token": plain.token["X-Access-Token"]})
    for shown in wrong:
        headers = {"Content-Type": "application/json", **shown}
        answers = [web.port(plain.sandbox, PORT, path, headers, method, "{}") for method, path in routes]
        assert [answer.status for answer in answers] == [401] * 4, shown
    # Neither loopback nor its own address makes code in the sandbox anybody better.
    address = plain.printed("import socket; print(socket.gethostbyname(socket.gethostname()))").strip()
    for host in ("127.0.0.1", "0.0.0.0", address):
        printed = plain.printed(FROM_WITHIN % (json.dumps(routes), host))
        assert json.loads(printed) == [401] * 4, host
    assert plain.printed("print(kept)", context_id=context) == "42\n"
    # The same with the token that the SDKs show here.
    headers = {"Content-Type": "application/json", **plain.traffic_token}
    answers = [web.port(plain.sandbox, PORT, path, headers, method, "{}") for method, path in routes]
    assert [answer.status for answer in answers] == [200] * 4
    assert plain.call("POST", "/execute", {"code": "1", "context_id": context}).status == 404
