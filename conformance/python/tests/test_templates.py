"""Templates are built, tagged, found and deleted as the SDK's own builder says."""

import traceback
import uuid

import e2b
import pytest

import web
from flavour import eventually, in_thread
from generation import NEW

feature = pytest.mark.feature


@pytest.fixture
def builder(sdk):
    return e2b.Template if sdk.name == "sync" else e2b.AsyncTemplate


@pytest.fixture
def name():
    """A name that is free, and is free again afterwards."""
    name = f"conformance-{uuid.uuid4().hex[:12]}"
    yield name
    web.api("DELETE", f"/templates/{name}", None)


def blank(builder, context=None):
    return builder(file_context_path=str(context)) if context else builder()


async def output(sdk, template, command):
    """What a command prints in a new sandbox of a template."""
    sandbox = await sdk.call(sdk.Sandbox.create, template, timeout=60)
    try:
        return (await sdk.call(sandbox.commands.run, command)).stdout
    finally:
        await sdk.call(sandbox.kill)


@feature("builds.build")
async def test_a_template_has_what_its_steps_made(sdk, builder, name):
    template = (
        blank(builder)
        .from_template("base")
        .set_envs({"COLOUR": "green"})
        .run_cmd("echo $COLOUR > /tmp/colour", user="root")
        .make_dir("/home/user/a/b")
        .set_workdir("/home/user/a")
        .run_cmd("pwd > here")
    )
    lines = []
    built = await sdk.call(builder.build, template, alias=name, cpu_count=1, memory_mb=512, on_build_logs=lines.append)
    assert built.template_id and built.build_id
    assert any("RUN" in line.message for line in lines), [line.message for line in lines]
    shown = await output(sdk, name, "cat /tmp/colour ~/a/here; pwd; grep MemTotal /proc/meminfo")
    assert shown.split() == ["green", "/home/user/a", "/home/user/a", "MemTotal:", str(512 << 10), "kB"]


@feature("builds.build")
async def test_a_rebuild_keeps_the_id_and_is_a_new_version(sdk, builder, name):
    template = blank(builder).from_template("base").run_cmd("echo one > ~/version")
    one = await sdk.call(builder.build, template, alias=name)
    template = blank(builder).from_template("base").run_cmd("echo two > ~/version")
    two = await sdk.call(builder.build, template, alias=name)
    assert one.template_id == two.template_id and one.build_id != two.build_id
    assert await output(sdk, name, "cat ~/version") == "two\n"
    assert await output(sdk, f"{name}:{one.build_id}", "cat ~/version") == "one\n"


@feature("builds.build")
async def test_a_template_begins_where_another_ended(sdk, builder, name):
    parent = blank(builder).from_template("base").set_workdir("/srv").set_envs({"A": "1"})
    await sdk.call(builder.build, parent, alias=name)
    child = blank(builder).from_template(name).run_cmd("echo $A $PWD > /tmp/seen")
    await sdk.call(builder.build, child, alias=f"{name}-child")
    try:
        assert await output(sdk, f"{name}-child", "cat /tmp/seen") == "1 /srv\n"
    finally:
        await in_thread(web.api, "DELETE", f"/templates/{name}-child", None)


@feature("builds.copy")
async def test_files_are_copied(sdk, builder, name, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "note.txt").write_text("hello")
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho ran\n")
    template = (
        blank(builder, tmp_path)
        .from_template("base")
        .copy("folder/*", "/app/folder/")
        .copy("run.sh", "/app/", user="root", mode=0o755)
    )
    await sdk.call(builder.build, template, alias=name)
    shown = await output(sdk, name, "cat /app/folder/note.txt; echo; /app/run.sh; stat -c '%U %a' /app/run.sh")
    assert shown == "hello\nran\nroot 755\n"
    # Nothing is uploaded a second time, and nothing is missing for that.
    await sdk.call(builder.build, template, alias=name)


@feature("builds.errors")
async def test_a_failing_step_is_the_callers_own_line(sdk, builder, name):
    template = blank(builder).from_template("base").run_cmd("true")
    template = template.run_cmd("exit 7")  # the line
    error = await sdk.error(builder.build, template, alias=name)
    assert type(error).__name__ == "BuildException", repr(error)
    assert str(error) == "failed to run command 'exit 7': exit status 7"
    frames = traceback.extract_tb(error.__traceback__)
    assert any("# the line" in (frame.line or "") for frame in frames), frames


@feature("builds.errors")
async def test_a_base_that_is_not_there_is_named(sdk, builder, name):
    template = blank(builder).from_template("no-such-template")
    error = await sdk.error(builder.build, template, alias=name)
    assert type(error).__name__ == "BuildException", repr(error)
    assert "no-such-template" in str(error)


@feature("builds.background")
@pytest.mark.new_only
async def test_a_build_in_the_background_is_followed(sdk, builder, name):
    template = blank(builder).from_template("base").run_cmd("sleep 1")
    info = await sdk.call(builder.build_in_background, template, name)

    async def status():
        return str((await sdk.call(builder.get_build_status, info)).status.value)

    assert await status() in ("building", "ready")
    async def is_ready():
        return await status() == "ready"

    await eventually(is_ready, "the end of the build", seconds=60)


@feature("builds.tags")
@pytest.mark.new_only
async def test_tags_are_given_moved_and_taken(sdk, builder, name):
    template = blank(builder).from_template("base").run_cmd("echo one > ~/version")
    one = await sdk.call(builder.build, template, f"{name}:v1")
    template = blank(builder).from_template("base").run_cmd("echo two > ~/version")
    await sdk.call(builder.build, template, f"{name}:v2")
    assigned = await sdk.call(builder.assign_tags, f"{name}:v1", ["stable"])
    assert assigned.build_id == one.build_id and assigned.tags == ["stable"]
    assert await output(sdk, f"{name}:stable", "cat ~/version") == "one\n"
    await sdk.call(builder.assign_tags, f"{name}:v2", "stable")
    assert await output(sdk, f"{name}:stable", "cat ~/version") == "two\n"
    tags = await sdk.call(builder.get_tags, one.template_id)
    assert {tag.tag for tag in tags} == {"v1", "v2", "stable"}
    await sdk.call(builder.remove_tags, name, "stable")
    error = await sdk.error(sdk.Sandbox.create, f"{name}:stable")
    assert "404" in str(error) or "does not exist" in str(error), repr(error)
    error = await sdk.error(builder.remove_tags, name, "default")
    assert type(error).__name__ == "TemplateException", repr(error)


@feature("builds.exists")
@pytest.mark.new_only
async def test_a_name_is_taken_from_the_request_on(sdk, builder, name):
    assert await sdk.call(builder.exists, "base") is True
    assert await sdk.call(builder.exists, name) is False
    await sdk.call(builder.build, blank(builder).from_template("base"), name)
    assert await sdk.call(builder.exists, name) is True


@feature("builds.errors")
async def test_what_cannot_be_is_refused_before_anything_is_built(sdk, builder, name):
    template = blank(builder).from_template("base")
    error = await sdk.error(builder.build, template, alias=name, cpu_count=3)
    assert "CPU count must be 1 or an even number" in str(error), repr(error)
    if NEW:
        error = await sdk.error(builder.build, template, f"{name}:a b")
        assert str(error).startswith("400"), repr(error)
