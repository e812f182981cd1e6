"""What the interpreter's environment has, and that a user can add to it."""

import pytest

feature = pytest.mark.feature

# A package as small as one can be. It is made inside the sandbox, so that the case says nothing about a registry.
WHEEL = """
import base64, hashlib, pathlib, zipfile
def wheel(folder, name, version='1.0'):
    files = {{
        f'{{name}}.py': f'VERSION = {{version!r}}',
        f'{{name}}-{{version}}.dist-info/METADATA': f'Metadata-Version: 2.1\\nName: {{name}}\\nVersion: {{version}}\\n',
        f'{{name}}-{{version}}.dist-info/WHEEL': 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
    }}
    record = f'{{name}}-{{version}}.dist-info/RECORD'
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f'{{name}}-{{version}}-py3-none-any.whl', 'w') as packed:
        lines = []
        for path, text in files.items():
            packed.writestr(path, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()
            lines.append(f'{{path}},sha256={{digest}},{{len(text)}}')
        packed.writestr(record, '\\n'.join([*lines, f'{{record}},,']) + '\\n')
for name in {names}: wheel('/tmp/wheels', name)
"""


@feature("interpreter.packages")
@pytest.mark.deadline(120)
@pytest.mark.parametrize(
    "name, install",
    [
        ("by_pip", "!pip install --quiet --no-index --find-links /tmp/wheels by_pip"),
        ("by_magic", "%pip install --quiet --no-index --find-links /tmp/wheels by_magic"),
        ("by_uv", "!uv pip install --quiet --no-index --find-links /tmp/wheels by_uv"),
        ("by_sudo", "!sudo pip install --quiet --no-index --find-links /tmp/wheels by_sudo"),
    ],
)
async def test_what_a_cell_installs_can_be_imported_in_the_same_cell(run, name, install):
    await run(WHEEL.format(names=[name]))
    missing = (await run(f"import {name}")).error
    assert missing.name == "ModuleNotFoundError"
    execution = await run(f"{install}\nimport {name}\n{name}.VERSION")
    assert (execution.error, execution.text) == (None, "1.0")


@feature("interpreter.packages")
@pytest.mark.deadline(120)
@pytest.mark.parametrize("name, install", [("of_pip", "pip install"), ("of_uv", "uv pip install"), ("of_module", "python -m pip install")])
async def test_what_a_command_installs_can_be_imported_by_a_kernel_that_runs(sdk, interpreter, run, name, install):
    await run(WHEEL.format(names=[name]))
    command = f"{install} --quiet --no-index --find-links /tmp/wheels {name}"
    await sdk.call(interpreter.sandbox.commands.run, command, timeout=100)
    assert (await run(f"import {name}\n{name}.VERSION")).text == "1.0"


@feature("interpreter.packages")
@pytest.mark.once
@pytest.mark.deadline(180)
async def test_packages_come_from_the_registry(run):
    assert (await run("!pip install --quiet pyjokes\nimport pyjokes\npyjokes.__name__", timeout=90)).text == "pyjokes"
    assert (await run("!uv pip install --quiet cowsay\nimport cowsay\ncowsay.__name__", timeout=90)).text == "cowsay"


@feature("interpreter.packages")
@pytest.mark.once
async def test_commands_and_cells_have_the_same_python_and_user(sdk, interpreter, run):
    cell = (await run("import sys, getpass; (sys.prefix, getpass.getuser(), sys.version_info[:2])")).text
    script = "import sys, getpass; print((sys.prefix, getpass.getuser(), sys.version_info[:2]))"
    command = await sdk.call(interpreter.sandbox.commands.run, f'python -c "{script}"')
    assert cell == command.stdout.strip() == "('/opt/venv', 'user', (3, 13))"


@feature("interpreter.packages")
@pytest.mark.once
async def test_the_lock_file_is_what_is_installed(sdk, interpreter):
    check = "uv pip check && uv pip install --dry-run --no-deps --no-index -r /usr/local/share/skep/slim.txt"
    said = await sdk.call(interpreter.sandbox.commands.run, check)
    assert "Would make no changes" in said.stderr
