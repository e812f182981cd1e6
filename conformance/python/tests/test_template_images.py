"""Templates that begin with an image of a registry. Debian's own registry, on this machine, stands for Docker Hub."""

import os
import pathlib
import subprocess

import pytest

from flavour import in_thread
from templates import blank, build, builder, name, output, refusal

feature = pytest.mark.feature
PRIVATE = os.environ.get("CONFORMANCE_REGISTRY")
pytestmark = [
    pytest.mark.skipif(not PRIVATE, reason="the registries are the runner's"),
    # The first case waits for the packages that a bare Debian gets.
    pytest.mark.deadline(300),
]
IMAGE = f"{PRIVATE}/private/debian:13"


@feature("builds.from_image")
async def test_an_image_gets_a_user_and_keeps_its_variables(sdk, builder, name):
    template = blank(builder).from_image("debian:stable").run_cmd("id -un > /tmp/who; pwd >> /tmp/who")
    lines = await build(sdk, builder, template, name)
    assert any(line.startswith("[base] FROM debian:stable@sha256:") for line in lines), lines
    check = "cat /tmp/who /etc/conformance; ls /etc/issue 2>&1; sudo id -u; echo $FROM_IMAGE $PATH; git --version; curl --version | head -n 1"
    shown = (await output(sdk, name, check)).split("\n")
    assert shown[:5] == ["user", "/home/user", "image", "ls: cannot access '/etc/issue': No such file or directory", "0"]
    assert shown[5].startswith("yes /opt/image/bin:/usr/local/bin:")
    assert shown[6].startswith("git version") and shown[7].startswith("curl ")


@feature("builds.from_image")
@pytest.mark.parametrize("call", ["debian", "ubuntu", "python", "node", "bun"])
async def test_images_with_a_call_of_their_own_are_found(sdk, builder, name, call):
    lines = await build(sdk, builder, getattr(blank(builder), f"from_{call}_image")(), name)
    assert any(line.startswith("[base] FROM ") and "@sha256:" in line for line in lines), lines


@feature("builds.from_image")
@pytest.mark.once
async def test_layers_may_be_compressed_by_zstd(sdk, builder, name):
    await build(sdk, builder, blank(builder).from_image("debian:zstd"), name)
    assert await output(sdk, name, "cat /etc/conformance; ls /etc/issue || id -un") == "image\nuser\n"


@feature("builds.from_image")
@pytest.mark.once
async def test_packages_are_installed_in_an_image(sdk, builder, name):
    template = blank(builder).from_image("debian:stable").apt_install(["python3-pip"], no_install_recommends=True)
    template = template.pip_install(["--break-system-packages", "six"])
    await build(sdk, builder, template, name)
    assert await output(sdk, name, "python3 -c 'import six; print(1)'") == "1\n"


@feature("builds.from_base_image")
async def test_the_base_image_is_the_base_template(sdk, builder, name):
    await build(sdk, builder, blank(builder).from_base_image().run_cmd("node --version > /tmp/node"), name)
    assert (await output(sdk, name, "cat /tmp/node; id -un")).endswith("\nuser\n")


@feature("builds.from_dockerfile")
async def test_a_dockerfile_is_built(sdk, builder, name, tmp_path):
    (tmp_path / "note.txt").write_text("note")
    (tmp_path / "Dockerfile").write_text(
        "ARG VERSION=13\nFROM debian:${VERSION}\nENV A=1\nRUN echo $A > /tmp/a\nWORKDIR /srv\nCOPY note.txt /tmp/\nUSER daemon\n"
    )
    lines = await build(sdk, builder, blank(builder, tmp_path).from_dockerfile(str(tmp_path / "Dockerfile")), name)
    assert any(line.startswith("[base] FROM debian:13@sha256:") for line in lines), lines
    assert await output(sdk, name, "cat /tmp/a /tmp/note.txt", user="root") == "1\nnote"


@feature("builds.from_dockerfile")
@pytest.mark.once
@pytest.mark.skipif("E2B_API_URL" not in os.environ, reason="the names of a domain are resolved for the SDKs alone")
async def test_a_dockerfile_of_an_image_is_built_by_the_command_line(sdk, name, tmp_path):
    (tmp_path / "note.txt").write_text("note\n")
    (tmp_path / "Dockerfile").write_text(
        "ARG VERSION=13\nFROM debian:${VERSION} AS first\nRUN cat /etc/conformance > /out\n"
        "FROM debian:stable\nCOPY --from=first /out /srv/\nCOPY note.txt /srv/\n"
    )
    command = [os.environ["CONFORMANCE_EXECUTABLE"], "template", "build", str(tmp_path), "-n", name]
    variables = {**os.environ, "SKEP_SERVER": os.environ["E2B_API_URL"]}
    done = await in_thread(subprocess.run, command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "FROM debian:13@sha256:" in done.stderr and done.stdout.startswith(f"{name}:"), done
    assert await output(sdk, name, "cat /srv/*; id -un") == "note\nimage\nuser\n"


@feature("builds.registries")
async def test_a_private_registry_wants_credentials_that_are_kept_nowhere(sdk, builder, name, tmp_path):
    user, password = (os.environ[f"CONFORMANCE_REGISTRY_{word}"] for word in ("USER", "PASSWORD"))
    await build(sdk, builder, blank(builder).from_image(IMAGE, user, password), name)
    (tmp_path / "key.json").write_text(os.environ["CONFORMANCE_REGISTRY_KEY"])
    await build(sdk, builder, blank(builder, tmp_path).from_gcp_registry(IMAGE, service_account_json="key.json"), name)
    wrong = await refusal(sdk, builder, blank(builder).from_image(IMAGE, user, "wrong-secret"), name)
    assert str(wrong) == f"image `{IMAGE}`: access denied: authentication failed (the registry does not accept the credentials)"
    none = await refusal(sdk, builder, blank(builder).from_image(IMAGE), name)
    assert "(the registry asks for credentials)" in str(none)
    aws = blank(builder).from_aws_registry(IMAGE, "AKIA", "aws-secret", "no region")
    assert "the AWS region is not valid" in str(await refusal(sdk, builder, aws, name))
    secrets = [word.encode() for word in (password, "private_key", "wrong-secret", "aws-secret")]
    assert await in_thread(found_in, pathlib.Path(os.environ["CONFORMANCE_SERVER"]), secrets) == []


def found_in(folder, secrets):
    """The files of a server, its log and its record, that contain one of these."""
    files = [folder / "log", *folder.glob("data/skep.db*")]
    assert len(files) > 1, files
    return [(file.name, secret) for file in files for secret in secrets if secret in file.read_bytes()]


@feature("builds.errors")
async def test_an_image_that_cannot_be_used_is_named_at_its_line(sdk, builder, name):
    for image, says in [
        ("debian:none", "image `debian:none`: not found: there is no such image or tag"),
        ("debian:$NONE", "image 'debian:$NONE' has a variable 'NONE', which nothing sets; write the image itself"),
        ("10.0.0.1/x", "registry `10.0.0.1` is at a private address"),
        ("fedora:44", "the image cannot be used: ID='fedora' is not supported; images of Debian, Ubuntu and Alpine Linux"),
        ("alpine:3.24", "exit status 1: the packages for bash sudo curl git ss useradd cannot be installed:"),
        ("bare", "the image cannot be used: its shell cannot be run"),
    ]:
        error = await refusal(sdk, builder, blank(builder).from_image(image), name)
        assert says in str(error), error
