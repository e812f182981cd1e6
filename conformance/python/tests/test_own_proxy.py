"""A SOCKS5 proxy of one's own: given at create and by update, shown without its password, refused if it is none.

What goes through it is tested beside the proxy: here is no proxy that a sandbox may reach.
"""

import e2b
import pytest

pytestmark = [pytest.mark.new_only]
feature = pytest.mark.feature

PASSWORD = "hunter2-of-the-proxy"
PROXY = {"address": "192.0.2.7:1080", "username": "somebody", "password": PASSWORD}
SHOWN = {"address": "192.0.2.7:1080", "username": "somebody"}


async def network(sdk, sandbox):
    info = await sdk.call(sandbox.get_info)
    return info.network or {}


@feature("network.proxy")
async def test_a_proxy_is_shown_without_its_password_and_replaced_whole(sdk, fresh):
    sandbox = await fresh(network={"egress_proxy": PROXY})
    assert (await network(sdk, sandbox)).get("egress_proxy") == SHOWN
    await sdk.call(sandbox.pause)
    await sdk.call(sdk.Sandbox.connect, sandbox.sandbox_id, timeout=120)
    assert (await network(sdk, sandbox)).get("egress_proxy") == SHOWN
    await sdk.call(sandbox.update_network, {"egress_proxy": {"address": "Proxy.example.com:1080"}})
    assert (await network(sdk, sandbox)).get("egress_proxy") == {"address": "proxy.example.com:1080"}
    await sdk.call(sandbox.update_network, {})
    assert "egress_proxy" not in await network(sdk, sandbox)


@feature("network.proxy")
async def test_what_is_no_proxy_is_refused_without_its_password(sdk, fresh):
    sandbox = await fresh()
    for wrong in (
        {"address": "10.0.0.1:1080"},
        {"address": "127.0.0.1:1080", "username": "u", "password": PASSWORD},
        {"address": "proxy.example.com"},
        {"address": "proxy.example.com:0"},
        {"address": "proxy.example.com:1080", "password": PASSWORD},
        {"address": "proxy.example.com:1080", "username": "u" * 256},
    ):
        for call in (
            sdk.error(sandbox.update_network, {"egress_proxy": wrong}),
            sdk.error(sdk.Sandbox.create, "base", network={"egress_proxy": wrong}),
        ):
            error = await call
            assert isinstance(error, e2b.SandboxException), repr(error)
            assert "Invalid egress proxy config: " in str(error) and PASSWORD not in str(error), repr(error)
    assert "egress_proxy" not in await network(sdk, sandbox)
