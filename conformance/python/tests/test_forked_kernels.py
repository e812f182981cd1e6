"""What a kernel must be whether it was started or forked from one that was prepared."""

import os
import time
import uuid

import e2b
import pytest

import web
from interpreters import Interpreter

feature = pytest.mark.feature

# One line for each way in which two kernels that come from one fork could be the same by mistake.
SECRETS = """
import os, random, secrets, tempfile, uuid
import numpy
print(random.random())
print(random.SystemRandom().random())
print(numpy.random.rand())
print(numpy.random.default_rng().random())
print(uuid.uuid1())
print(uuid.uuid4())
print(secrets.token_hex(16))
print(os.urandom(16).hex())
print(tempfile.mktemp())
print(next(tempfile._get_candidate_names()))
"""

# What the machine knows of a process, without what differs between any two.
LIKENESS = r'''
import ctypes, os, re
kept = ("Umask", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp:", "SigBlk")
status = [line for line in open("/proc/self/status").read().splitlines() if line.startswith(kept)]
spaces = [os.readlink("/proc/self/ns/" + name) for name in sorted(os.listdir("/proc/self/ns"))]
limits = open("/proc/self/limits").read()
score = open("/proc/self/oom_score_adj").read()
dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
leads = os.getsid(0) == os.getpid() == os.getpgid(0)
print(status, spaces, limits, score, dumpable, leads, os.nice(0), os.getppid())
'''

DESCRIPTORS = r"""
import os
opened = []
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
        target = os.readlink("/proc/self/fd/" + name)
    except OSError:
        continue
    opened.append(target.split(":")[0] if ":" in target else target)
print(opened)
"""


# Whether this kernel comes from a prepared one, and uses the objects of that without writing to them.
ORIGIN = """
import sys, numpy
print("skep_kernel.zygote" in sys.orig_argv, sys.getrefcount(numpy) == sys.getrefcount(None))
"""

WARMING_SECONDS = 120


@feature("interpreter.default")
@pytest.mark.new_only
@pytest.mark.own_kernel("only our kernel can be forked")
async def test_first_kernels_new_contexts_and_restarted_ones_are_forked(sdk):
    if os.environ.get("SKEP_POOL_ZYGOTES") == "false":
        pytest.skip("this run has zygotes switched off")
    deadline = time.monotonic() + WARMING_SECONDS
    while True:
        interpreter = await Interpreter.create(sdk)
        try:
            # One that was created before there was a prepared kernel starts all of its own.
            is_forked = await interpreter.printed(ORIGIN) == "True True\n"
            if is_forked:
                context = await interpreter.context()
                assert await interpreter.printed(ORIGIN, context=context) == "True True\n"
                await sdk.call(interpreter.sandbox.restart_code_context, context)
                assert await interpreter.printed(ORIGIN, context=context) == "True True\n"
                return
        finally:
            await interpreter.kill()
        if time.monotonic() > deadline:
            if zygotes_started() == 0:
                pytest.skip("this server has no zygotes")
            pytest.fail("no kernel was ever forked")


# A module that only the built template has, and that it wants to be imported beforehand.
OWN_MODULE = """
printf 'import os\nMAKER = os.getpid()\n' > /opt/venv/lib/python3.13/site-packages/own_module.py
echo own_module > /usr/local/share/skep/preload.txt
"""

OWN_ORIGIN = """
import sys
print("skep_kernel.zygote" in sys.orig_argv, "own_module" in sys.modules)
"""


@feature("interpreter.default")
@pytest.mark.new_only
@pytest.mark.deadline(WARMING_SECONDS + 60)
@pytest.mark.own_kernel("only our kernel can be forked")
async def test_kernels_of_a_template_that_a_caller_built_are_forked_with_its_own_modules(sdk):
    if os.environ.get("SKEP_POOL_ZYGOTES") == "false":
        pytest.skip("this run has zygotes switched off")
    builder = e2b.Template if sdk.name == "sync" else e2b.AsyncTemplate
    name = f"conformance-{uuid.uuid4().hex[:12]}"
    template = builder().from_template("code-interpreter-slim").run_cmd(OWN_MODULE, user="root")
    await sdk.call(builder.build, template, alias=name)
    deadline = time.monotonic() + WARMING_SECONDS
    try:
        while True:
            interpreter = await Interpreter.create(sdk, name)
            try:
                printed = await interpreter.printed(OWN_ORIGIN)
                if printed == "True True\n":
                    # It was imported by another process, before this sandbox was asked for.
                    maker = "import os, own_module; print(own_module.MAKER != os.getpid())"
                    assert await interpreter.printed(maker) == "True\n"
                    return
            finally:
                await interpreter.kill()
            if time.monotonic() > deadline:
                if zygotes_started() == 0:
                    pytest.skip("this server has no zygotes")
                pytest.fail(f"no kernel was ever forked with its module: {printed}")
    finally:
        web.api("DELETE", f"/templates/{name}", None)


def zygotes_started():
    """The number of zygotes that the server has started, or tried to; 0 if it is not Skep or has them switched off."""
    rows = web.api("GET", "/skep/metrics").text.splitlines()
    return sum(float(row.split()[-1]) for row in rows if row.startswith("skep_zygote_starts_total{"))


@feature("interpreter.default")
async def test_kernels_share_no_randomness(sdk, interpreter, run):
    other = await Interpreter.create(sdk)
    try:
        context = await interpreter.context()
        answers = [await interpreter.printed(SECRETS), await interpreter.printed(SECRETS, context=context)]
        answers.append(await other.printed(SECRETS))
    finally:
        await other.kill()
    for values in zip(*(answer.splitlines() for answer in answers), strict=True):
        assert len(set(values)) == len(answers), values


@feature("interpreter.default")
async def test_a_kernel_is_to_the_machine_what_a_started_process_is(interpreter, sdk):
    kernel = await interpreter.printed(LIKENESS)
    # A child of the shell does not lead its session; this one is made to.
    await sdk.call(interpreter.sandbox.files.write, "/tmp/likeness.py", LIKENESS)
    command = "setsid --wait sh -c 'exec python3 /tmp/likeness.py'"
    started = (await sdk.call(interpreter.sandbox.commands.run, command)).stdout
    same = kernel.rsplit(" ", 1)[0], started.rsplit(" ", 1)[0]
    assert same[0] == same[1]
    assert kernel.rsplit(" ", 1)[1].strip() == "1"


@feature("interpreter.default")
@pytest.mark.own_kernel("ipykernel keeps a database of what was run")
async def test_a_kernel_holds_nothing_open_but_its_own(interpreter):
    opened = await interpreter.printed(DESCRIPTORS)
    allowed = {"/dev/null", "pipe", "socket", "anon_inode", "/proc/7/fd"}
    strangers = [name for name in eval(opened) if name not in allowed and not name.startswith("/proc/")]
    assert not strangers, strangers


@feature("interpreter.default")
async def test_kernels_share_no_place_in_a_file(sdk, interpreter):
    context = await interpreter.context()
    await interpreter.printed("open('/tmp/shared', 'w').write('0123456789')")
    read = "import sys; file = open('/tmp/shared'); print(file.read(4))"
    assert await interpreter.printed(read) == "0123\n"
    assert await interpreter.printed(read, context=context) == "0123\n"
    # Modules that were imported before the fork opened nothing that both now read from.
    await interpreter.printed("import matplotlib, numpy, pandas")


@feature("interpreter.default")
async def test_a_package_that_is_installed_wins_in_the_next_kernel(interpreter, sdk):
    # After this one another kernel waits for the next context.
    await interpreter.printed("import pandas", context=await interpreter.context())
    write = """
import pathlib, sysconfig
place = pathlib.Path(sysconfig.get_paths()["purelib"])
(place / "pandas.py").write_text("__version__ = 'mine'")
import shutil; shutil.rmtree(place / "pandas")
"""
    await interpreter.printed(write)
    context = await interpreter.context()
    assert await interpreter.printed("import pandas; print(pandas.__version__)", context=context) == "mine\n"


@feature("interpreter.default")
async def test_variables_that_python_reads_at_its_start_are_honoured(sdk):
    options = {"envs": {"PYTHONPATH": "/opt/mine", "MPLBACKEND": "agg"}}
    interpreter = await Interpreter.create(sdk, **options)
    try:
        context = await interpreter.context()
        printed = await interpreter.printed("import sys; print('/opt/mine' in sys.path)", context=context)
        assert printed == "True\n"
    finally:
        await interpreter.kill()
