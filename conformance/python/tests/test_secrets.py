"""The vault: secrets that go in and never come out."""

import uuid

import e2b
import pytest

import web
from flavour import in_thread

pytestmark = [pytest.mark.new_only]
feature = pytest.mark.feature


def vault(sdk):
    return e2b.Secret if sdk.name == "sync" else e2b.AsyncSecret


@pytest.fixture
def name():
    return f"Conformance-{uuid.uuid4().hex[:12]}"


@feature("secrets.vault")
async def test_a_secret_is_kept_changed_and_destroyed_by_name_and_by_id(sdk, name):
    secret = vault(sdk)
    made = await sdk.call(secret.create, name, "first value", metadata={"owner": "ci"})
    try:
        assert (made.name, made.version, made.metadata) == (name.lower(), 1, {"owner": "ci"})
        assert made.secret_id.startswith("sec_")
        found = await sdk.call(secret.get_info, name)
        assert found.secret_id == made.secret_id
        changed = await sdk.call(secret.update, made.secret_id, "second value")
        assert (changed.version, changed.metadata) == (2, {"owner": "ci"})
        cleared = await sdk.call(secret.update, name, "third value", metadata={})
        assert (cleared.version, cleared.metadata) == (3, {})
        listed = await sdk.every(secret.list())
        assert [one.secret_id for one in listed].count(made.secret_id) == 1
        error = await sdk.error(secret.create, name.upper(), "another")
        assert type(error).__name__ == "SecretException" and "409" in str(error), repr(error)
    finally:
        assert await sdk.call(secret.destroy, name)
    assert not await sdk.call(secret.destroy, name)
    assert not await sdk.call(secret.exists, name)
    error = await sdk.error(secret.get_info, name)
    assert type(error).__name__ == "SecretNotFoundException", repr(error)


@feature("secrets.vault")
async def test_a_name_that_is_none_is_told_as_such(sdk):
    secret = vault(sdk)
    # The Python client puts it into the path as it is.
    for odd in ("a b/c?d", "no such"):
        assert not await sdk.call(secret.exists, odd)
    error = await sdk.error(secret.create, "sec_name", "value")
    assert type(error).__name__ == "SecretException" and "400" in str(error), repr(error)
    error = await sdk.error(secret.create, "name", "two\nlines")
    assert "control characters" in str(error) and "lines" not in str(error), repr(error)


@feature("secrets.vault")
@pytest.mark.once
async def test_no_answer_holds_a_value_or_is_kept(sdk, name):
    value = uuid.uuid4().hex
    answers = [
        await in_thread(web.api, "POST", "/secrets", {"name": name, "value": value}),
        await in_thread(web.api, "POST", "/secrets", {"name": name, "value": value}),
        await in_thread(web.api, "POST", "/secrets", {"name": name, "value": [value]}),
        await in_thread(web.api, "GET", "/secrets?limit=100"),
        await in_thread(web.api, "GET", f"/secrets/{name}"),
        await in_thread(web.api, "POST", f"/secrets/{name}", {"value": value}),
        await in_thread(web.api, "GET", f"/secrets/{name}/{value}"),
        await in_thread(web.api, "DELETE", f"/secrets/{name}"),
    ]
    assert [answer.status for answer in answers] == [201, 409, 400, 200, 200, 200, 404, 204]
    for answer in answers:
        assert value not in answer.text
        assert answer.headers["cache-control"] == "no-store"
