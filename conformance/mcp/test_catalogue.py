"""The inventory of servers that the E2B SDK names: each can be had, or is refused with the reason."""

import pathlib
import sys

import pytest
from e2b.sandbox.mcp import McpServer
from typing_extensions import get_type_hints

TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "templates/mcp-gateway/gateway"
sys.path.insert(0, str(TEMPLATE))
from mcp_gateway import servers  # noqa: E402

pytestmark = pytest.mark.feature("mcp.gateway")
PINNED = {"npm", "pypi"}
NAMED = get_type_hints(McpServer)
FIELDS = {*PINNED, "version", "env", "flags", "each", "list", "arguments", "with"}


def test_every_server_that_the_sdk_names_can_be_had_or_is_refused():
    assert set(servers.CATALOGUE) | set(servers.REFUSED) == set(NAMED)
    assert not set(servers.CATALOGUE) & set(servers.REFUSED)


def test_a_server_that_can_be_had_is_one_package_at_one_version():
    for name, entry in servers.CATALOGUE.items():
        assert len(PINNED & set(entry)) == 1 and entry["version"] and set(entry) <= FIELDS, name
        server = servers.of_name(name, {})
        assert any(entry["version"] in word for words in server.install for word in words), name


def test_options_are_those_of_the_sdk():
    for name, entry in servers.CATALOGUE.items():
        # Those without options are plain dictionaries.
        known = set(getattr(NAMED[name], "__annotations__", {}))
        used = {*entry.get("env", {}).values(), *entry.get("flags", {}).values(), *entry.get("each", {}).values()}
        used |= {entry["list"]} if "list" in entry else set()
        assert used <= known, (name, used - known)


def test_a_refusal_names_the_reason_and_the_source():
    for name, said in (
        ("terraform", "none of them is known to be of its project"),
        ("deepwiki", "a service at an address of its vendor's"),
        ("aks", 'published as an image for Docker, and no package of its project was found on npm or PyPI (its source: "github/Azure/aks-mcp"'),
        ("nodeCodeSandbox", "containers of Docker, of which a sandbox has none"),
        ("nonsense", "it is no server of the catalogue"),
    ):
        with pytest.raises(servers.ConfigError) as refused:
            servers.of_name(name, {})
        assert f"`{name}` is not available here: " in str(refused.value) and said in str(refused.value)
    for name, entry in servers.REFUSED.items():
        assert entry["why"] in servers.REASONS or " " in entry["why"], name
        assert servers.GITHUB.fullmatch(f"github/{entry.get('source', 'a/b')}"), name
