"""The base template is a machine a person would expect."""

import pytest

feature = pytest.mark.feature


@feature("template.tools")
@pytest.mark.once
@pytest.mark.parametrize(
    "tool, shows",
    [
        ("python3 --version", "Python 3.13"),
        ("python --version", "Python 3.13"),
        ("pip --version", "pip "),
        ("uv --version", "uv "),
        ("node --version", "v20."),
        ("npm --version", "."),
        ("git --version", "git version 2"),
        ("curl --version", "curl "),
    ],
)
async def test_the_usual_tools_are_there(sdk, sandbox, tool, shows):
    result = await sdk.call(sandbox.commands.run, tool)
    assert shows in result.stdout
    assert result.stderr == ""


@feature("template.sudo")
@pytest.mark.once
async def test_sudo_asks_nothing_and_says_nothing(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, "sudo -n true")
    assert (result.stdout, result.stderr, result.exit_code) == ("", "", 0)
    assert (await sdk.call(sandbox.commands.run, "sudo -n id -u")).stdout == "0\n"


@feature("template.environment")
@pytest.mark.once
async def test_the_machine_is_in_order(sdk, sandbox):
    result = await sdk.call(
        sandbox.commands.run,
        'getent hosts "$(hostname)" >/dev/null && echo resolves; '
        "touch ~/.probe && echo home; locale charmap; "
        "test -w /tmp && echo tmp; test -c /dev/null && echo null; test -d /proc/self && echo proc",
    )
    assert result.stdout == "resolves\nhome\nUTF-8\ntmp\nnull\nproc\n"
    assert result.stderr == ""


@feature("template.packages")
@pytest.mark.once
@pytest.mark.deadline(120)
async def test_pip_installs_a_package_for_user_without_flags(sdk, sandbox):
    result = await sdk.call(sandbox.commands.run, "pip install iniconfig", timeout=100)
    assert "Successfully installed" in result.stdout
    imported = await sdk.call(sandbox.commands.run, "python3 -c 'import iniconfig; print(iniconfig.__name__)'")
    assert imported.stdout == "iniconfig\n"


@feature("template.packages")
@pytest.mark.once
@pytest.mark.deadline(120)
async def test_uv_installs_a_package_into_an_environment(sdk, sandbox, place):
    result = await sdk.call(
        sandbox.commands.run,
        f"uv venv -q {place} && VIRTUAL_ENV={place} uv pip install -q iniconfig && {place}/bin/python -c 'import iniconfig; print(1)'",
        timeout=100,
    )
    assert result.stdout == "1\n"


@feature("template.packages")
@pytest.mark.once
@pytest.mark.deadline(120)
async def test_npm_installs_a_package(sdk, sandbox, place):
    result = await sdk.call(
        sandbox.commands.run,
        f"mkdir -p {place} && cd {place} && npm init -y >/dev/null && npm install --silent is-odd && node -p \"require('is-odd')(3)\"",
        timeout=100,
    )
    assert result.stdout.endswith("true\n")


@feature("sandbox.internet")
@pytest.mark.deadline(120)
async def test_without_internet_access_nothing_outside_is_reached(sdk, sandbox, fresh):
    download = "cd /tmp && pip download --no-deps --retries 0 --timeout 5 iniconfig"
    assert "Successfully downloaded iniconfig" in (await sdk.call(sandbox.commands.run, download)).stdout
    closed = await fresh(allow_internet_access=False)
    error = await sdk.error(closed.commands.run, download, timeout=60)
    assert "No matching distribution found for iniconfig" in error.stderr
    assert (await sdk.call(closed.commands.run, "echo works")).stdout == "works\n"
