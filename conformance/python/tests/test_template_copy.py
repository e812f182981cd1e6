"""Files of the caller are copied into a template: which, where, as whose."""

import gzip
import hashlib
import io
import tarfile

import pytest

import web
from flavour import in_thread
from templates import blank, build, builder, name, output, refusal

feature = pytest.mark.feature


@pytest.fixture
def context(tmp_path):
    """A folder with what people have in one."""

    def write(path, text, mode=0o644):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    write("file.txt", "file")
    write("run.sh", "#!/bin/sh\necho ran\n", 0o755)
    write("app/a.txt", "a")
    write("app/sub/b.txt", "b")
    write("app/secret", "s", 0o600)
    write("lib/conformance.so", "so")
    write("ü/ö.txt", "umlauts")
    (tmp_path / "link").symlink_to("file.txt")
    (tmp_path / "app/dangling").symlink_to("/nowhere")
    (tmp_path / "app/absolute").symlink_to("/etc/hostname")
    return tmp_path


LOOK = "find {} -printf '%p %y %u:%g %m %l\\n' | sort"


async def tree(sdk, name, *paths):
    """What is below these paths of a template: kind, owner, mode and target of each."""
    lines = await output(sdk, name, LOOK.format(" ".join(paths)), user="root")
    return [line.strip() for line in lines.strip().split("\n")]


@feature("builds.copy")
async def test_files_folders_and_patterns_are_copied(sdk, builder, name, context):
    template = (
        blank(builder, context)
        .from_template("base")
        .copy("file.txt", "/t/file.txt")
        .copy("file.txt", "/t/new/dir/")
        .copy("run.sh", "/t")
        .copy("link", "/t/new/")
        .copy("app", "/app")
        .copy("**/*.txt", "/all")
        .copy("*.txt", "/one/x.txt")
        .copy("lib", "/lib")
        .copy("app/sub", "relative")
    )
    await build(sdk, builder, template, name)
    assert await tree(sdk, name, "/t", "/app") == [
        "/app d user:user 755",
        "/app/a.txt f user:user 644",
        "/app/absolute l user:user 777 /etc/hostname",
        "/app/dangling l user:user 777 /nowhere",
        "/app/secret f user:user 600",
        "/app/sub d user:user 755",
        "/app/sub/b.txt f user:user 644",
        "/t d user:user 755",
        "/t/file.txt f user:user 644",
        "/t/new d user:user 755",
        "/t/new/dir d user:user 755",
        "/t/new/dir/file.txt f user:user 644",
        "/t/new/link l user:user 777 file.txt",
        "/t/run.sh f user:user 755",
    ]
    check = "cd /all && find . -type f | sort; cat /one/x.txt/file.txt; readlink /lib; cat /usr/lib/conformance.so ~/relative/b.txt; echo; stat -c %Y ~ /home"
    *shown, home, above = (await output(sdk, name, check)).split()
    assert shown == ["./app/a.txt", "./app/sub/b.txt", "./file.txt", "./ü/ö.txt", "fileusr/lib", "sob"]
    # Folders that were there are not from 1970 afterwards.
    assert int(home) > 1_700_000_000 and int(above) > 1_700_000_000


@feature("builds.copy")
async def test_owner_and_mode_are_the_callers(sdk, builder, name, context):
    template = (
        blank(builder, context)
        .from_template("base")
        .copy("app", "/o/app", user="root", mode=0o644)
        .copy("file.txt", "/o/group", user="root:user")
        .copy("run.sh", "/o/numbers/", user="1234:5")
        .copy_items([{"src": "file.txt", "dest": "/o/item"}, {"src": ["file.txt", "run.sh"], "dest": "/o/two/", "mode": 0o600}])
    )
    await build(sdk, builder, template, name)
    assert await tree(sdk, name, "/o") == [
        "/o d root:root 755",
        "/o/app d root:root 755",
        "/o/app/a.txt f root:root 644",
        "/o/app/absolute l root:root 777 /etc/hostname",
        "/o/app/dangling l root:root 777 /nowhere",
        "/o/app/secret f root:root 644",
        "/o/app/sub d root:root 755",
        "/o/app/sub/b.txt f root:root 644",
        "/o/group f root:user 644",
        "/o/item f user:user 644",
        "/o/numbers d 1234:tty 755",
        "/o/numbers/run.sh f 1234:tty 755",
        "/o/two d user:user 755",
        "/o/two/file.txt f user:user 600",
        "/o/two/run.sh f user:user 600",
    ]
    error = await refusal(sdk, builder, blank(builder, context).from_template("base").copy("file.txt", "/x", user="nobody-here"), name)
    assert str(error) == "there is no user 'nobody-here' to own the files"


@feature("builds.copy")
async def test_what_is_there_is_merged_with(sdk, builder, name, context):
    before = "mkdir -p /t/real && chmod 750 /t && echo old > /t/a.txt && echo kept > /t/kept && ln -s /t/real /t/sub && ln -s /t/kept /t/secret"
    template = blank(builder, context).from_template("base").run_cmd(before, user="root").copy("app", "/t")
    await build(sdk, builder, template, name)
    assert await tree(sdk, name, "/t") == [
        "/t d root:root 750",
        "/t/a.txt f user:user 644",
        "/t/absolute l user:user 777 /etc/hostname",
        "/t/dangling l user:user 777 /nowhere",
        "/t/kept f root:root 644",
        "/t/real d root:root 755",
        "/t/real/b.txt f user:user 644",
        "/t/secret f user:user 600",
        "/t/sub l root:root 777 /t/real",
    ]
    assert await output(sdk, name, "cat /t/a.txt /t/kept", user="root") == "akept\n"


@feature("builds.copy")
async def test_links_are_followed_and_files_ignored_if_that_is_asked_for(sdk, builder, name, context):
    (context / ".dockerignore").write_text("lib/**\nlib\n")
    template = (
        blank(builder, context, file_ignore_patterns=["app/**", "app", "ü/**", "ü"])
        .from_template("base")
        .copy("link", "/r/file", resolve_symlinks=True, force_upload=True)
        .copy("*", "/rest")
    )
    await build(sdk, builder, template, name)
    shown = await output(sdk, name, "cd /rest; ls; readlink link; stat -c %F /r/file; cat /r/file")
    assert shown == "file.txt\nlink\nrun.sh\nfile.txt\nregular file\nfile"


@feature("builds.copy")
async def test_files_are_uploaded_once_and_again_if_told(sdk, builder, name, context):
    template = blank(builder, context).from_template("base").copy("file.txt", f"/{name}")
    assert "Uploaded 'file.txt'" in await build(sdk, builder, template, name)
    assert "Skipping upload of 'file.txt', already cached" in await build(sdk, builder, template, name)
    again = blank(builder, context).from_template("base").copy("file.txt", f"/{name}", force_upload=True)
    assert "Uploaded 'file.txt'" in await build(sdk, builder, again, name)
    (context / "file.txt").write_text("changed")
    await build(sdk, builder, template, name)
    assert await output(sdk, name, f"cat /{name}") == "changed"


def archive(*members):
    """An archive that no SDK would make."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        for member, content in members:
            made.addfile(member, io.BytesIO(content))
    return file.getvalue()


def member(path, kind=tarfile.REGTYPE, content=b"", target=""):
    made = tarfile.TarInfo(path)
    made.type, made.size, made.linkname = kind, len(content), target
    return made, content


def request(name):
    """Paths of a new build, and its id."""
    asked = web.api("POST", "/v3/templates", {"name": name}).json
    return f"/templates/{asked['templateID']}", f"/v2/templates/{asked['templateID']}/builds/{asked['buildID']}", asked["buildID"]


async def built_of(name, data, source="."):
    """The end of a build that copies an archive of ours."""
    files = hashlib.sha256(data).hexdigest()
    template, start, build_id = await in_thread(request, name)
    link = await in_thread(web.api, "GET", f"{template}/files/{files}")
    assert link.status == 201 and link.json["url"].startswith("http"), link
    sent = await in_thread(web.fetch, link.json["url"], "PUT", {"Content-Length": str(len(data))}, data)
    if sent.status >= 300:
        return sent.json["message"]
    step = {"type": "COPY", "args": [source, "/t", "", ""], "force": False, "filesHash": files}
    started = await in_thread(web.api, "POST", start, {"fromTemplate": "base", "force": False, "steps": [step]})
    assert started.status == 202, started
    while True:
        status = (await in_thread(web.api, "GET", f"{template}/builds/{build_id}/status")).json
        if status["status"] in ("ready", "error"):
            return status.get("reason", {"message": "", "step": ""})


@feature("builds.copy")
@pytest.mark.once
async def test_an_archive_cannot_do_harm(sdk, name):
    for bad in (member("../x", content=b"x"), member("/x", content=b"x"), member("dev", tarfile.CHRTYPE), member("pipe", tarfile.FIFOTYPE)):
        reason = await built_of(name, archive(member("ok", content=b"1"), bad))
        assert reason["step"] == "1" and bad[0].name.lstrip("/") in reason["message"], reason
    bomb = gzip.compress(archive(member("zeros", content=bytes(64 << 20))))
    cut = await built_of(name, bomb[: len(bomb) // 2])
    assert isinstance(cut, str) and cut, cut
    odd = archive(
        member("folder/link", tarfile.SYMTYPE, target="elsewhere"),
        member("folder/link/below", content=b"never"),
        member("no/parent/file", content=b"1"),
    )
    assert (await built_of(name, odd))["message"] == ""
    assert await output(sdk, name, "cd /t; find . | sort; readlink folder/link; stat -c '%a %U' no") == (
        ".\n./folder\n./folder/link\n./no\n./no/parent\n./no/parent/file\nelsewhere\n755 user\n"
    )


@feature("builds.copy")
async def test_files_that_are_not_there_are_named_before_anything_is_sent(sdk, builder, name, context):
    error = await sdk.error(builder.build, blank(builder, context).from_template("base").copy("nothing*", "/x"), alias=name)
    assert "No files found in" in str(error), repr(error)
