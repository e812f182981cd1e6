"""Templates are built, tagged, found and deleted as the SDK's own builder says."""

import traceback

import pytest

import web
from flavour import eventually, in_thread
from generation import NEW
from templates import blank, builder, name, output

feature = pytest.mark.feature


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


@feature("builds.manage")
async def test_a_template_is_listed_published_and_deleted(sdk, builder, name):
    """By plain HTTP: of these the SDKs have no method, only their CLI does."""
    built = await sdk.call(builder.build, blank(builder).from_template("base").run_cmd("true"), alias=name, cpu_count=1, memory_mb=256)

    async def api(method, path, body=None):
        return await in_thread(web.api, method, path, body)

    (listed,) = [template for template in (await api("GET", "/templates")).json if template["templateID"] == built.template_id]
    assert (listed["aliases"], listed["cpuCount"], listed["memoryMB"]) == ([name], 1, 256)
    assert listed["public"] is False and listed["buildStatus"] == "ready" and listed["buildID"] == built.build_id
    (version,) = (await api("GET", f"/templates/{name}")).json["builds"]
    assert version["buildID"] == built.build_id and version["status"] == "ready"
    published = await api("PATCH", f"/v2/templates/{name}", {"public": True})
    assert published.status == 200 and published.json["names"][0].endswith(f"/{name}")
    assert (await api("GET", f"/templates/aliases/{name}")).json["public"] is True
    sandbox = await sdk.call(sdk.Sandbox.create, name, timeout=60)
    assert (await api("DELETE", f"/templates/{name}")).status == 400
    await sdk.call(sandbox.kill)
    assert (await api("DELETE", f"/templates/{name}")).status == 204
    assert (await api("DELETE", f"/templates/{name}")).status == 404


@feature("builds.build")
async def test_every_line_of_a_long_log_arrives(sdk, builder, name):
    lines = []
    template = blank(builder).from_template("base").run_cmd(f"for i in $(seq 350); do echo line $i; done; : {name}")
    await sdk.call(builder.build, template, alias=name, on_build_logs=lambda line: lines.append(line.message))
    shown = [line for line in lines if "[stdout]: line " in line]
    assert [line.rsplit(" ", 1)[1] for line in shown] == [str(number) for number in range(1, 351)]
