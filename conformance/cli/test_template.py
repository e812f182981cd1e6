"""The `template` commands."""

import os
import pathlib
import stat
import subprocess
import sys
import uuid

import e2b
import pytest

from conftest import GENERATION

feature = pytest.mark.feature
YEAR = GENERATION == "year"
# The older CLI wants the token of a login to build; an API key is one here.
LOGGED_IN = {"E2B_ACCESS_TOKEN": os.environ["E2B_API_KEY"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a Dockerfile, as people have it."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "note.txt").write_text("note")
    (folder / "e2b.Dockerfile").write_text("FROM e2bdev/base\nENV A=1\nRUN echo $A > /tmp/a\nCOPY note.txt /tmp/\n")
    return folder


@pytest.fixture(scope="module")
def built(cli, folder):
    """A template that the CLI has built, and deletes."""
    name = f"conformance-{uuid.uuid4().hex[:12]}"
    done = cli("template", "create", name, "-p", str(folder), **LOGGED_IN)
    assert done.code == 0, done.err + done.out
    yield name, done.text
    cli("template", "delete", name, "-y", **LOGGED_IN)


@feature("cli.template_create")
def test_a_dockerfile_becomes_a_template(built):
    name, said = built
    assert "[builder 3/" in said and "finished" in said, said
    sandbox = e2b.Sandbox.create(name, timeout=60)
    try:
        assert sandbox.commands.run("cat /tmp/a /tmp/note.txt; id -un; pwd").stdout == "1\nnoteuser\n/home/user\n"
    finally:
        sandbox.kill()


@feature("cli.template_create")
def test_a_build_that_fails_says_why(cli, folder):
    (folder / "bad.Dockerfile").write_text("FROM e2bdev/base\nRUN exit 7\n")
    name = f"conformance-{uuid.uuid4().hex[:12]}"
    done = cli("template", "create", name, "-p", str(folder), "-d", "bad.Dockerfile", **LOGGED_IN)
    assert done.code == 1
    assert b"failed to run command 'exit 7': exit status 7" in done.err + done.out, done
    cli("template", "delete", name, "-y", **LOGGED_IN)


@feature("cli.templates")
def test_the_list_has_it(cli, built):
    done = cli("template", "list", **LOGGED_IN)
    assert done.code == 0, done.err
    assert built[0] in done.text


@feature("cli.template_publish")
def test_it_is_published_and_taken_back(cli, built):
    name, _ = built
    done = cli("template", "publish", name, "-y", **LOGGED_IN)
    assert done.code == 0, done.err
    assert YEAR or f"/{name}" in done.text, done.text
    done = cli("template", "unpublish", name, "-y", **LOGGED_IN)
    assert done.code == 0, done.err


@feature("cli.template_delete")
def test_a_deleted_template_is_gone(cli, folder):
    name = f"conformance-{uuid.uuid4().hex[:12]}"
    assert cli("template", "create", name, "-p", str(folder), **LOGGED_IN).code == 0
    assert cli("template", "delete", name, "-y", **LOGGED_IN).code == 0
    done = cli("template", "delete", name, "-y", **LOGGED_IN)
    assert done.code == 1 and b"not found" in done.err + done.out, done


@feature("cli.template_init")
@pytest.mark.parametrize("language", ["python-sync", "typescript"])
def test_a_new_project_is_begun(cli, tmp_path, language):
    done = cli("template", "init", "-n", "mine", "-l", language, "-p", str(tmp_path))
    assert done.code == 0, done.err + done.out
    written = "".join(file.read_text() for file in tmp_path.rglob("*.*") if file.is_file())
    assert "Template" in written and "mine" in written


@feature("cli.template_migrate")
def test_a_migrated_project_builds(cli, tmp_path):
    name = f"conformance-{uuid.uuid4().hex[:12]}"
    (tmp_path / "e2b.Dockerfile").write_text("FROM e2bdev/base\nRUN echo migrated > /tmp/how\n")
    (tmp_path / "e2b.toml").write_text(f'template_id = "x"\ndockerfile = "e2b.Dockerfile"\ntemplate_name = "{name}"\n')
    done = cli("template", "migrate", "-l", "python-sync", "-p", str(tmp_path))
    assert done.code == 0, done.err + done.out
    # The older one writes a package.
    program = ["-m", f"{tmp_path.name}.build_prod"] if YEAR else [tmp_path / "build_prod.py"]
    made = subprocess.run([sys.executable, *program], cwd=tmp_path.parent, capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    sandbox = e2b.Sandbox.create(name, timeout=60)
    try:
        assert sandbox.commands.run("cat /tmp/how").stdout == "migrated\n"
    finally:
        sandbox.kill()
        cli("template", "delete", name, "-y", **LOGGED_IN)


@feature("cli.template_build")
def test_building_with_docker_is_refused_with_the_way_out(cli, folder, tmp_path):
    """Neither generation has a push service to talk to any more: the vendor's is gone, too."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    docker.chmod(docker.stat().st_mode | stat.S_IXUSR)
    path = f"{docker.parent}:{os.environ['PATH']}"
    done = cli("template", "build", "-p", str(folder), "-n", "old", PATH=path, **LOGGED_IN)
    assert done.code == 1
    said = done.err + done.out
    assert b"deprecated" in said, said
    assert not YEAR or b"use `template create`" in said, said
    assert not pathlib.Path(tmp_path, "asked").exists() and not (folder / "e2b.toml").exists()
