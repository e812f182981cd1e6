"""The git helper, against repositories that live in the sandbox itself."""

import pytest

from generation import expect_error

feature = pytest.mark.feature
pytestmark = pytest.mark.new_only


async def repository(sdk, sandbox, place):
    """A repository with one commit on `main`."""
    git = sandbox.git
    await sdk.call(git.init, place, initial_branch="main")
    await sdk.call(sandbox.files.write, f"{place}/README.md", "one\n")
    await sdk.call(git.add, place)
    await sdk.call(git.commit, place, "First", author_name="A Bee", author_email="bee@example.com")
    return git


@feature("git.repository")
async def test_a_commit_carries_message_and_author(sdk, sandbox, place):
    await repository(sdk, sandbox, place)
    result = await sdk.call(sandbox.commands.run, f"git -C {place} log -1 --format='%s|%an|%ae'")
    assert result.stdout == "First|A Bee|bee@example.com\n"


@feature("git.repository")
async def test_status_tells_clean_changed_staged_and_new(sdk, sandbox, place):
    git = await repository(sdk, sandbox, place)
    clean = await sdk.call(git.status, place)
    assert (clean.current_branch, clean.file_status, clean.detached) == ("main", [], False)
    await sdk.call(sandbox.files.write, f"{place}/README.md", "two\n")
    await sdk.call(sandbox.files.write, f"{place}/new.txt", "x")
    await sdk.call(sandbox.files.write, f"{place}/staged.txt", "x")
    await sdk.call(git.add, place, files=["staged.txt"])
    files = {file.name: file for file in (await sdk.call(git.status, place)).file_status}
    assert set(files) == {"README.md", "new.txt", "staged.txt"}
    assert files["staged.txt"].staged and not files["README.md"].staged
    assert (files["README.md"].status, files["new.txt"].status) == ("modified", "untracked")


@feature("git.repository")
async def test_restore_and_reset_undo_changes(sdk, sandbox, place):
    git = await repository(sdk, sandbox, place)
    await sdk.call(sandbox.files.write, f"{place}/README.md", "changed\n")
    await sdk.call(git.restore, place, paths=["README.md"])
    assert await sdk.call(sandbox.files.read, f"{place}/README.md") == "one\n"
    await sdk.call(sandbox.files.write, f"{place}/README.md", "changed\n")
    await sdk.call(git.add, place)
    await sdk.call(git.reset, place, mode="hard", target="HEAD")
    assert (await sdk.call(git.status, place)).file_status == []


@feature("git.branches")
async def test_branches_are_made_listed_changed_and_deleted(sdk, sandbox, place):
    git = await repository(sdk, sandbox, place)
    await sdk.call(git.create_branch, place, "work")
    both = await sdk.call(git.branches, place)
    assert (sorted(both.branches), both.current_branch) == (["main", "work"], "work")
    await sdk.call(git.checkout_branch, place, "main")
    await sdk.call(git.delete_branch, place, "work")
    one = await sdk.call(git.branches, place)
    assert (one.branches, one.current_branch) == (["main"], "main")


@feature("git.remotes")
async def test_clone_push_and_pull_go_around(sdk, sandbox, place):
    git = await repository(sdk, sandbox, f"{place}/first")
    await sdk.call(git.init, f"{place}/hub.git", bare=True, initial_branch="main")
    await sdk.call(git.remote_add, f"{place}/first", "origin", f"{place}/hub.git")
    assert await sdk.call(git.remote_get, f"{place}/first", "origin") == f"{place}/hub.git"
    assert await sdk.call(git.remote_get, f"{place}/first", "other") is None
    await sdk.call(git.push, f"{place}/first", remote="origin", branch="main")
    await sdk.call(git.clone, f"{place}/hub.git", path=f"{place}/second")
    assert await sdk.call(sandbox.files.read, f"{place}/second/README.md") == "one\n"
    await sdk.call(sandbox.files.write, f"{place}/first/README.md", "two\n")
    await sdk.call(git.add, f"{place}/first")
    await sdk.call(git.commit, f"{place}/first", "Second", author_name="A Bee", author_email="bee@example.com")
    assert (await sdk.call(git.status, f"{place}/first")).ahead == 1
    await sdk.call(git.push, f"{place}/first")
    await sdk.call(git.pull, f"{place}/second")
    assert await sdk.call(sandbox.files.read, f"{place}/second/README.md") == "two\n"


@feature("git.remotes")
async def test_pushing_a_branch_without_upstream_tells_what_to_do(sdk, sandbox, place):
    git = await repository(sdk, sandbox, f"{place}/first")
    await sdk.call(git.init, f"{place}/hub.git", bare=True, initial_branch="main")
    await sdk.call(git.remote_add, f"{place}/first", "origin", f"{place}/hub.git")
    error = await sdk.error(git.push, f"{place}/first", set_upstream=False)
    expect_error(error, "GitUpstreamException", "upstream")


@feature("git.config")
async def test_configuration_is_kept(sdk, sandbox, place):
    git = await repository(sdk, sandbox, place)
    await sdk.call(git.configure_user, "A Bee", "bee@example.com")
    assert await sdk.call(git.get_config, "user.name") == "A Bee"
    await sdk.call(git.set_config, "core.editor", "ed", scope="local", path=place)
    assert await sdk.call(git.get_config, "core.editor", scope="local", path=place) == "ed"
    assert await sdk.call(git.get_config, "no.such") is None
