"""Rules for requests: headers with secrets and identity tokens, given at create, shown, replaced.

What they do to requests is tested beside the proxy, and where a sandbox asks another one.
"""

import e2b
import pytest

import web
from flavour import in_thread

pytestmark = [pytest.mark.new_only]
feature = pytest.mark.feature

BEARER = "Bearer ${e2b.secrets.api-key}"
RULES = {
    "API.Example.com": [{"transform": {"headers": {"Authorization": BEARER}}}],
    "*.example.org": [],
    "nothing.example": [{}],
}
SHOWN = {
    "api.example.com": [{"transform": {"headers": {"Authorization": BEARER}}}],
    "*.example.org": [],
    "nothing.example": [{}],
}
PLACEHOLDER = "${e2b.identity.tokens.Aws}"


def tokens():
    """Asked for late: the older generation has no secrets."""
    return {"tokens": {"Aws": e2b.Secret.iam_token(audience="sts.test", token_type="JWT-SVID")}}


async def rules(sdk, sandbox):
    info = await sdk.call(sandbox.get_info)
    return (info.network or {}).get("rules")


@feature("network.headers")
async def test_rules_are_shown_with_placeholders_and_replaced_whole(sdk, fresh):
    assert e2b.Secret.fill("api-key") in BEARER
    sandbox = await fresh(network={"rules": RULES})
    assert await rules(sdk, sandbox) == SHOWN
    await sdk.call(sandbox.update_network, {"rules": {"a.test": [{"transform": {"headers": {"x": "1"}}}]}})
    assert await rules(sdk, sandbox) == {"a.test": [{"transform": {"headers": {"x": "1"}}}]}
    await sdk.call(sandbox.update_network, {"rules": RULES})
    await sdk.call(sandbox.pause)
    await sdk.call(sdk.Sandbox.connect, sandbox.sandbox_id, timeout=120)
    assert await rules(sdk, sandbox) == SHOWN
    await sdk.call(sandbox.update_network, {})
    assert await rules(sdk, sandbox) is None


@feature("network.headers")
async def test_programs_trust_whoever_looks_into_their_requests(sdk, fresh):
    # Where there are settings of the host for package clients, Node reads the system's bundle, which has it, too.
    authority = "/usr/local/share/ca-certificates/skep-egress.crt"
    trusted = f'test -s {authority} && grep -qF "$(sed -n 2p {authority})" "$NODE_EXTRA_CA_CERTS" && echo trusted; true'
    sandbox = await fresh()
    assert (await sdk.call(sandbox.commands.run, trusted)).stdout == ""
    await sdk.call(sandbox.update_network, {"rules": RULES})
    assert (await sdk.call(sandbox.commands.run, trusted)).stdout == "trusted\n"


@feature("network.headers")
async def test_what_is_no_rule_is_refused(sdk, fresh):
    sandbox = await fresh()
    for wrong, said in [
        ({"*": []}, 'Rule domain "*" is not a valid domain name.'),
        ({"a.test": [{}, {}]}, 'Domain "a.test" can have at most 1 transform rule.'),
        ({"a.test": [{"transform": {"headers": {"x": "${e2b.secrets.}"}}}]}, "malformed E2B placeholder"),
    ]:
        error = await sdk.error(sandbox.update_network, {"rules": wrong})
        assert isinstance(error, e2b.SandboxException) and said in str(error), repr(error)
        error = await sdk.error(sdk.Sandbox.create, "base", network={"rules": wrong})
        assert isinstance(error, e2b.SandboxException) and said in str(error), repr(error)
    assert await rules(sdk, sandbox) is None


@feature("identity.tokens")
async def test_tokens_are_named_in_rules_and_unknown_ones_are_refused(sdk, fresh):
    transform = {"transform": lambda context: {"headers": {"x-token": context.iam.tokens["Aws"]}}}
    sandbox = await fresh(iam=tokens(), network={"rules": {"sts.test": [transform]}})
    assert await rules(sdk, sandbox) == {"sts.test": [{"transform": {"headers": {"x-token": PLACEHOLDER}}}]}
    unknown = {"sts.test": [{"transform": {"headers": {"x-token": "${e2b.identity.tokens.gcp}"}}}]}
    error = await sdk.error(sandbox.update_network, {"rules": unknown})
    assert isinstance(error, e2b.SandboxException) and '"gcp"' in str(error), repr(error)
    other = {"tokens": {"a": e2b.Secret.iam_token(audience="x", token_type="X509-SVID")}}
    error = await sdk.error(sdk.Sandbox.create, "base", iam=other)
    assert 'only "JWT-SVID" is supported' in str(error), repr(error)


@feature("identity.tokens")
@pytest.mark.once
async def test_everybody_may_know_who_issues_tokens_and_by_which_keys():
    issuer = (await in_thread(web.api, "GET", "/.well-known/openid-configuration")).json
    assert issuer["jwks_uri"] == f"{issuer['issuer']}/.well-known/jwks.json"
    keys = (await in_thread(web.api, "GET", "/.well-known/jwks.json")).json["keys"]
    assert keys and all(key["alg"] == "ES256" and "d" not in key for key in keys), keys
