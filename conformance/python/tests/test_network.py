"""Rules for what leaves a sandbox: given at create, shown, replaced, kept across a pause.

No packet leaves this machine: every address here is denied when it is tried. What is let through is tested
beside the packet filter, with a world of the test's own.
"""

import e2b
import pytest

import web
from flavour import in_thread

feature = pytest.mark.feature

# Addresses for documentation, which nobody has.
DENIED, OTHER = "192.0.2.7", "198.51.100.0/24"
HEAD = "GET /x?q HTTP/1.1\\r\\nHost: other.test\\r\\nConnection: close\\r\\n\\r\\n"
ASK = f"bash -c 'exec 3<>/dev/tcp/{DENIED}/80; printf \"{HEAD}\" >&3; cat <&3'"
REACH = f"bash -c 'exec 3<>/dev/tcp/{DENIED}/9' 2>&1; true"


async def detail(sandbox):
    answer = await in_thread(web.api, "GET", f"/sandboxes/{sandbox.sandbox_id}")
    assert answer.status == 200, answer
    return answer.json


async def refused(sdk, sandbox):
    said = (await sdk.call(sandbox.commands.run, REACH, timeout=10)).stdout
    assert "Connection refused" in said, said


@feature("network.rules")
async def test_what_is_denied_is_refused_at_once_and_shown(sdk, fresh):
    sandbox = await fresh(network={"deny_out": [e2b.ALL_TRAFFIC], "allow_out": [OTHER]})
    network = (await detail(sandbox))["network"]
    assert network["denyOut"] == [e2b.ALL_TRAFFIC] and network["allowOut"] == [OTHER]
    assert None not in network.values()
    await refused(sdk, sandbox)
    info = await sdk.call(sandbox.get_info)
    assert info.sandbox_id == sandbox.sandbox_id


@feature("network.names")
async def test_a_host_that_no_rule_names_is_refused_so_that_a_person_understands(sdk, fresh):
    sandbox = await fresh(network={"deny_out": [e2b.ALL_TRAFFIC], "allow_out": ["Example.com", "*.example.org"]})
    assert (await detail(sandbox))["network"]["allowOut"] == ["example.com", "*.example.org"]
    await refused(sdk, sandbox)
    said = (await sdk.call(sandbox.commands.run, ASK, timeout=30)).stdout
    assert said.startswith("HTTP/1.1 403 ") and "network rules do not allow this host" in said, said
    path = f"/skep/sandboxes/{sandbox.sandbox_id}/requests"
    requests = (await in_thread(web.api, "GET", path)).json
    told = [(request["host"], request["path"], request["status"]) for request in requests]
    assert told == [("other.test", "/x", 403)], requests
    assert requests[0]["refusal"] and (await in_thread(web.api, "GET", f"{path}?after=1")).json == []


@feature("network.update")
@pytest.mark.new_only
async def test_rules_are_replaced_whole(sdk, fresh):
    sandbox = await fresh(allow_internet_access=False)
    assert (await detail(sandbox))["allowInternetAccess"] is False
    await refused(sdk, sandbox)
    await sdk.call(sandbox.update_network, {"deny_out": [DENIED], "dns_servers": ["192.0.2.53"]})
    shown = await detail(sandbox)
    assert shown["network"] == {"denyOut": [DENIED], "dnsServers": ["192.0.2.53"]}
    assert "allowInternetAccess" not in shown
    await refused(sdk, sandbox)
    await sdk.call(sandbox.pause)
    await sdk.call(sdk.Sandbox.connect, sandbox.sandbox_id, timeout=120)
    assert (await detail(sandbox))["network"]["denyOut"] == [DENIED]
    await refused(sdk, sandbox)
    await sdk.call(sandbox.update_network, {})
    assert "network" not in await detail(sandbox)


@feature("network.rules")
@pytest.mark.once
@pytest.mark.parametrize(
    "network, said",
    [
        ({"denyOut": ["example.com"]}, "invalid denied CIDR example.com"),
        ({"allowOut": ["0.0.0.0"]}, "invalid allowed address 0.0.0.0"),
        ({"allowOut": ["http://x"]}, "invalid allowed address http://x"),
        ({"allowOut": ["example.com"]}, "ALL_TRAFFIC"),
        ({"dnsServers": ["::1"]}, "invalid DNS server ::1"),
    ],
)
async def test_rules_that_are_none_are_refused_before_a_sandbox_is_looked_for(network, said):
    created = await in_thread(web.api, "POST", "/v2/sandboxes", {"templateID": "base", "network": network})
    changed = await in_thread(web.api, "PUT", "/sandboxes/i0000000000000000000/network", network)
    for answer in (created, changed):
        assert answer.status == 400 and said in answer.json["message"], answer


@feature("network.update")
@pytest.mark.once
async def test_a_sandbox_that_is_not_there_is_not_found(sdk):
    answer = await in_thread(web.api, "PUT", "/sandboxes/i0000000000000000000/network", {"denyOut": []})
    assert answer.status == 404, answer
