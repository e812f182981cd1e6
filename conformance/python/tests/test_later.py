"""What does not work yet is refused in the contract's shape, never accepted and ignored.

Each entry of `NOT_YET` moves into a real case when its feature lands; a request that suddenly succeeds
fails here, so that nobody forgets.
"""

import pytest

import web
from flavour import in_thread

feature = pytest.mark.feature

BASE = {"templateID": "base", "timeout": 60}

PROXY = {"egressProxy": {"address": "192.0.2.7:1080", "tls": {"enabled": True}}}

NOT_YET = [
    ("later.network", "PUT", "/sandboxes/{id}/network", PROXY),
    ("later.network", "POST", "/v2/sandboxes", {**BASE, "network": PROXY}),
]


def cases():
    for name, method, path, body in NOT_YET:
        what = ",".join(sorted(set(body or {}) - set(BASE)))
        yield pytest.param(method, path, body, id=f"{method} {path} {what}".strip(), marks=feature(name))


@pytest.mark.once
@pytest.mark.parametrize("method, path, body", list(cases()))
async def test_it_is_refused_with_code_and_message(sdk, sandbox, method, path, body):
    answer = await in_thread(web.api, method, path.replace("{id}", sandbox.sandbox_id), body)
    if answer.status == 201 and "sandboxID" in answer.json:
        await sdk.call(sdk.Sandbox.kill, answer.json["sandboxID"])
    assert answer.status in (400, 403, 501), answer
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json["code"] == answer.status
    assert answer.json["message"]
