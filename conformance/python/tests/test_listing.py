"""Listing sandboxes: filters, order and pages, always within one tag so that other runs do not matter."""

import datetime

import e2b
import pytest

from generation import expect_error

pytestmark = pytest.mark.feature("sandbox.list")


async def three(fresh, tag):
    return [await fresh(metadata={"tag": tag, "number": str(number)}) for number in range(3)]


def query(tag, **more):
    return e2b.SandboxQuery(metadata={"tag": tag}, **more)


def ids(sandboxes):
    return [sandbox.sandbox_id for sandbox in sandboxes]


async def test_the_list_contains_a_new_sandbox_with_its_details(sdk, fresh, tag):
    sandbox = await fresh(metadata={"tag": tag})
    (listed,) = [item for item in await sdk.every(sdk.Sandbox.list()) if item.sandbox_id == sandbox.sandbox_id]
    assert listed.metadata == {"tag": tag}
    assert listed.state == e2b.SandboxState.RUNNING
    assert listed.name == "base"
    info = await sdk.call(sandbox.get_info)
    assert listed.started_at == info.started_at
    assert listed.end_at == info.end_at


async def test_a_metadata_filter_matches_every_given_pair_and_odd_characters(sdk, fresh, tag):
    odd = {"tag": tag, "a b&c=d": "50% / é"}
    sandbox = await fresh(metadata=odd)
    await fresh(metadata={"tag": tag})
    found = await sdk.every(sdk.Sandbox.list(query=e2b.SandboxQuery(metadata=odd)))
    assert ids(found) == [sandbox.sandbox_id]
    assert found[0].metadata == odd


async def test_pages_are_complete_newest_first_and_end(sdk, fresh, tag):
    made = await three(fresh, tag)
    pages = sdk.Sandbox.list(query=query(tag), limit=1)
    seen = []
    while pages.has_next:
        page = await sdk.call(pages.next_items)
        assert len(page) == 1
        seen += page
        assert pages.has_next == (len(seen) < 3)
    assert ids(seen) == ids(reversed(made))
    assert pages.next_token is None
    assert "No more items to fetch" in str(await sdk.error(pages.next_items))


async def test_a_page_can_be_resumed_by_its_token(sdk, fresh, tag):
    made = await three(fresh, tag)
    pages = sdk.Sandbox.list(query=query(tag), limit=2)
    assert ids(await sdk.call(pages.next_items)) == ids([made[2], made[1]])
    rest = sdk.Sandbox.list(query=query(tag), limit=2, next_token=pages.next_token)
    assert ids(await sdk.call(rest.next_items)) == [made[0].sandbox_id]
    assert not rest.has_next


@pytest.mark.new_only
async def test_the_order_can_be_turned_around(sdk, fresh, tag):
    made = await three(fresh, tag)
    assert ids(await sdk.every(sdk.Sandbox.list(query=query(tag), order="asc"))) == ids(made)
    assert ids(await sdk.every(sdk.Sandbox.list(query=query(tag), order="asc", limit=1))) == ids(made)
    assert ids(await sdk.every(sdk.Sandbox.list(query=query(tag), order="desc"))) == ids(reversed(made))


async def test_a_state_filter_selects_running_or_paused(sdk, fresh, tag):
    sandbox = await fresh(metadata={"tag": tag})
    running = await sdk.every(sdk.Sandbox.list(query=query(tag, state=[e2b.SandboxState.RUNNING])))
    both = await sdk.every(
        sdk.Sandbox.list(query=query(tag, state=[e2b.SandboxState.RUNNING, e2b.SandboxState.PAUSED]))
    )
    paused = await sdk.every(sdk.Sandbox.list(query=query(tag, state=[e2b.SandboxState.PAUSED])))
    assert ids(running) == ids(both) == [sandbox.sandbox_id]
    assert paused == []


@pytest.mark.new_only
async def test_started_after_includes_the_reported_moment_and_excludes_a_later_one(sdk, fresh, tag):
    sandbox = await fresh(metadata={"tag": tag})
    moment = (await sdk.call(sandbox.get_info)).started_at
    at = await sdk.every(sdk.Sandbox.list(query=query(tag, started_after=moment)))
    later = await sdk.every(
        sdk.Sandbox.list(query=query(tag, started_after=moment + datetime.timedelta(seconds=1)))
    )
    assert ids(at) == [sandbox.sandbox_id]
    assert later == []


@pytest.mark.new_only
async def test_a_template_filter_takes_name_or_id_and_an_unknown_one_finds_nothing(sdk, fresh, tag):
    sandbox = await fresh(metadata={"tag": tag})
    template_id = (await sdk.call(sandbox.get_info)).template_id
    for template, found in [("base", [sandbox.sandbox_id]), (template_id, [sandbox.sandbox_id]), ("no-such-template", [])]:
        assert ids(await sdk.every(sdk.Sandbox.list(query=query(tag, template=template)))) == found


async def test_a_token_that_is_none_is_refused(sdk):
    error = await sdk.error(sdk.Sandbox.list(next_token="not a token").next_items)
    expect_error(error, "SandboxException", ["400", "Invalid next token"])


async def test_a_limit_out_of_range_is_refused(sdk):
    error = await sdk.error(sdk.Sandbox.list(limit=1000).next_items)
    expect_error(error, "SandboxException", ["400", "validation error"])
