"""Every step of the builder does in a template what it says."""

import pytest

from generation import by_generation
from templates import blank, build, builder, name, output, refusal

feature = pytest.mark.feature
# The older SDK does not quote.
SPACE = by_generation(" ", "-")


@feature("builds.files")
async def test_directories_links_and_files_are_made_moved_and_removed(sdk, builder, name):
    template = (
        blank(builder)
        .from_template("base")
        .make_dir(["a/b", "c", f"d{SPACE}e"], mode=0o700)
        .run_cmd(["echo one > a/file", "echo two > c/file"])
        .make_symlink("a/file", "link")
        .rename("a/file", "a/moved")
        .make_symlink("a/moved", "link", force=True)
        .remove("c", recursive=True, force=True)
        .remove(["no-such-file"], force=True)
    )
    await build(sdk, builder, template, name)
    shown = await output(sdk, name, f"ls; cat link; stat -c %a a/b 'd{SPACE}e'; ls a")
    assert shown.split("\n") == ["a", f"d{SPACE}e", "link", "one", "700", "700", "b", "moved", ""]


ENVIRONMENT = {
    "EXPANDED": "$A-${A}x",
    "DEFAULT": "${UNSET:-d}${UNSET-e}",
    "EMPTY": "a$UNSET!",
    "DOLLAR": "\\$HOME",
    "TWO_DOLLARS": "$$HOME",
    "COMMANDS": "$((1+2)) $(id) `id`",
    "QUOTES": "say \"hi\" it's p\\t ~ -n 100%",
    "LINES": "one\n  two\n",
    "PATH": "/opt/own/bin:${PATH}:/x",
}
EXPECTED = {
    "A": "1",
    "EXPANDED": "1-1x",
    "DEFAULT": "de",
    "EMPTY": "a!",
    "DOLLAR": "$HOME",
    "TWO_DOLLARS": "$$HOME",
    "COMMANDS": "$((1+2)) $(id) `id`",
    "QUOTES": "say \"hi\" it's p\\t ~ -n 100%",
    "LINES": "one\n  two\n",
}


@feature("builds.envs")
async def test_variables_are_expanded_and_stay(sdk, builder, name):
    tell = "env -0 | tr '\\n\\0' '\\f\\n'"
    template = (
        blank(builder)
        .from_template("base")
        .set_envs({"A": "1"})
        .set_envs(ENVIRONMENT)
        .run_cmd(f"{tell} > ~/seen")
        .run_cmd("mkdir -p /opt/own/bin && printf '#!/bin/sh\\necho own' > /opt/own/bin/uname && chmod +x /opt/own/bin/uname", user="root")
    )
    await build(sdk, builder, template, name)
    seen, now = (await output(sdk, name, f"cat ~/seen; echo ==; {tell}; uname")).split("==\n")
    for text in (seen, now):
        variables = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
        assert {key: variables[key].replace("\f", "\n") for key in EXPECTED} == EXPECTED
        # A login shell, which sets the path anew, keeps that of the template.
        assert variables["PATH"].split(":").index("/opt/own/bin") < variables["PATH"].split(":").index("/usr/bin")
        assert "/x" in variables["PATH"].split(":")
    assert now.endswith("own\n")


@feature("builds.envs")
@pytest.mark.parametrize("value, says", [("${X:?gone}", "variable 'X' is not set: gone"), ("a${X", "a variable without an end")])
async def test_a_value_that_cannot_be_expanded_fails_by_name(sdk, builder, name, value, says):
    error = await refusal(sdk, builder, blank(builder).from_template("base").set_envs({"BAD": value}), name)
    assert "variable 'BAD'" in str(error) and says in str(error), error


@feature("builds.users")
async def test_commands_run_as_any_user_in_any_directory(sdk, builder, name):
    template = (
        blank(builder)
        .from_template("base")
        .run_cmd("whoami > /tmp/1; pwd >> /tmp/1")
        .run_cmd("whoami > /tmp/2; pwd >> /tmp/2", user="root")
        .run_cmd("whoami > /tmp/3; pwd >> /tmp/3", user="nobody")
        .set_user("root")
        .set_workdir("/srv/made/here")
        .set_user("app")
        .set_workdir("../by-app")
        .run_cmd("whoami > /tmp/4; pwd >> /tmp/4")
    )
    await build(sdk, builder, template, name)
    shown = await output(sdk, name, "cat /tmp/[1-4]; stat -c %U /srv/made/here /srv/made/by-app; whoami; pwd")
    assert shown.split() == [
        *("user", "/home/user", "root", "/root", "nobody", "/", "app", "/srv/made/by-app"),
        *("root", "app", "app", "/srv/made/by-app"),
    ]


@feature("builds.users")
async def test_users_that_cannot_be_are_refused(sdk, builder, name):
    error = await refusal(sdk, builder, blank(builder).from_template("base").run_cmd("whoami", user="root123"), name)
    assert str(error) == "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'"
    error = await refusal(sdk, builder, blank(builder).from_template("base").set_user("; exit 1"), name)
    assert "failed to set the user '; exit 1'" in str(error)


@feature("builds.packages")
@pytest.mark.once
@pytest.mark.deadline(240)
async def test_packages_of_pypi_npm_and_debian_are_installed(sdk, builder, name):
    template = (
        blank(builder)
        .from_template("base")
        .pip_install("six")
        .pip_install(["idna"], g=False)
        .npm_install("is-odd", g=True)
        .npm_install(["is-even"])
        .apt_install(["sl"], no_install_recommends=True)
    )
    await build(sdk, builder, template, name)
    check = "python3 -c 'import six, idna'; ls /usr/local/lib/node_modules node_modules; ls /usr/games/sl"
    shown = await output(sdk, name, check)
    assert {"is-odd", "is-even", "/usr/games/sl"} <= set(shown.split())


# Who has made the bytecode of two packages.
BYTECODE = "python3 -c 'import importlib.util as u; print(*[u.find_spec(n).cached for n in (\"six\", \"toolz\")])' | xargs -n 1 stat -c %U"


@feature("builds.cache")
@pytest.mark.once
@pytest.mark.deadline(240)
async def test_packages_are_downloaded_and_compiled_once(sdk, builder, name):
    for number in range(2):
        template = blank(builder).from_template("base").set_envs({"BUILD": f"{name}-{number}"}).pip_install(["six", "toolz"])
        lines = await build(sdk, builder, template, name)
        assert await output(sdk, name, BYTECODE) == "root\nroot\n"
    said = [line.split("]: ", 1)[-1] for line in lines]
    # What is fetched is prepared then.
    assert any(line.startswith("Installed 2 packages") for line in said), lines
    assert not any(line.startswith("Prepared") for line in said), lines


@feature("builds.packages")
@pytest.mark.once
@pytest.mark.deadline(240)
async def test_bun_installs_packages_where_it_is(sdk, builder, name):
    template = blank(builder).from_template("base").npm_install("bun", g=True).bun_install("is-odd").bun_install("is-even", g=True)
    await build(sdk, builder, template, name)
    shown = await output(sdk, name, "ls node_modules; sudo ls /root/.bun/install/global/node_modules")
    assert {"is-odd", "is-even"} <= set(shown.split())


@feature("builds.packages")
@pytest.mark.once
async def test_a_tool_that_the_template_does_not_have_is_named_by_the_step(sdk, builder, name):
    template = blank(builder).from_template("base").bun_install("is-odd")
    lines = []
    error = await sdk.error(builder.build, template, alias=name, on_build_logs=lambda line: lines.append(line.message))
    assert str(error) == "failed to run command 'bun install is-odd': exit status 127"
    assert any("bun: command not found" in line for line in lines), lines


@feature("builds.git_clone")
async def test_a_repository_is_cloned(sdk, builder, name):
    commit = "git -c user.name=a -c user.email=a@b commit -q -m one"
    template = (
        blank(builder)
        .from_template("base")
        .run_cmd(f"git init -q -b main ~/r && cd ~/r && echo hi > f && git add f && {commit} && git branch dev")
        .git_clone("file:///home/user/r", f"/home/user/a{SPACE}clone", branch="dev", depth=1)
    )
    await build(sdk, builder, template, name)
    shown = await output(sdk, name, f"cd 'a{SPACE}clone' && git branch --show-current && cat f")
    assert shown == "dev\nhi\n"


@feature("builds.cache")
async def test_steps_are_found_again_until_told_otherwise(sdk, builder, name):
    def template():
        return blank(builder).from_template("base").run_cmd(f"date +%s%N > ~/first; : {name}")

    stamp = "date +%s%N > ~/second"
    lines = await build(sdk, builder, template().run_cmd(stamp), name)
    assert not any(line.startswith("CACHED [builder") for line in lines), lines
    once = await output(sdk, name, "cat first second")
    lines = await build(sdk, builder, template().run_cmd(stamp), name)
    assert len([line for line in lines if line.startswith("CACHED [builder")]) == 2, lines
    assert await output(sdk, name, "cat first second") == once
    await build(sdk, builder, template().skip_cache().run_cmd(stamp), name)
    again = await output(sdk, name, "cat first second")
    assert again.split()[0] == once.split()[0] and again.split()[1] != once.split()[1]
    await build(sdk, builder, template().run_cmd(stamp), name, skip_cache=True)
    last = await output(sdk, name, "cat first second")
    assert not set(last.split()) & set(once.split() + again.split())


@feature("builds.vendor")
async def test_helpers_for_templates_that_only_the_vendor_has_fail_at_their_base(sdk, builder, name):
    container = blank(builder).from_template("devcontainer")
    if hasattr(container, "beta_dev_container_prebuild"):
        error = await refusal(sdk, builder, container.beta_dev_container_prebuild("/w"), name)
        assert "template 'devcontainer' not found: it is the vendor's alone" in str(error) and "from_dockerfile" in str(error)
