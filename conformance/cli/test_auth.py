"""The `auth` commands. The vendor's part, a page in a browser and its tokens, is played here."""

import http.server
import json
import os
import stat
import threading
import urllib.parse
import urllib.request

import e2b
import pytest

from conftest import GENERATION
from terminal import Terminal

feature = pytest.mark.feature
EMAIL = "bee@example.com"


class Vendor(http.server.ThreadingHTTPServer):
    """Where the CLI renews its tokens and gives them back. Whoever asks gets the API key as one."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}{path}"


class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.path, dict(urllib.parse.parse_qsl(form))))
        body = json.dumps({"access_token": os.environ["E2B_API_KEY"], "expires_in": 3600}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def vendor():
    server = Vendor()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def person(tmp_path, cli, vendor):
    """Somebody at a machine of their own, without a key in the environment, whose browser logs them in at once."""
    return Person(tmp_path, cli, vendor)


class Person:
    def __init__(self, folder, cli, vendor):
        self.cli = cli
        self.home = folder / "home"
        self.home.mkdir()
        self.visited = folder / "visited"
        answer = {
            "email": EMAIL,
            "accessToken": os.environ["E2B_API_KEY"],
            "refreshToken": "renew",
            "tokenEndpoint": vendor.url("/token"),
            "revokeEndpoint": vendor.url("/revoke"),
            "clientId": "cli",
        }
        (folder / "answer").write_text(urllib.parse.urlencode(answer))
        browser = folder / "bin" / "xdg-open"
        browser.parent.mkdir()
        browser.write_text(BROWSER.format(folder=folder))
        browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{browser.parent}:{os.environ['PATH']}",
            "E2B_API_KEY": "",
            "E2B_ACCESS_TOKEN": "",
        }

    def run(self, *arguments, **extra):
        return self.cli(*arguments, **{**self.environment, **extra})

    @property
    def saved(self):
        return json.loads((self.home / ".e2b/config.json").read_text())


# What a browser would do: look at the page, and let it send its reader back to the CLI.
BROWSER = """#!/usr/bin/env python3
import pathlib, sys, urllib.error, urllib.parse, urllib.request
folder = pathlib.Path("{folder}")
(folder / "visited").write_text(sys.argv[1])
query = urllib.parse.parse_qs(urllib.parse.urlsplit(sys.argv[1]).query)
back = query["next"][0].replace("//localhost:", "//127.0.0.1:") + "/?" + (folder / "answer").read_text()
class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None
try:
    urllib.request.build_opener(Stay).open(back)
except urllib.error.HTTPError as redirect:
    assert redirect.code == 302
"""


def key_of(saved):
    return saved["teamApiKey" if GENERATION == "year" else "projectApiKey"]


def team_of(saved):
    return saved["teamId" if GENERATION == "year" else "projectId"]


def asked_api(path):
    headers = {"Authorization": f"Bearer {os.environ['E2B_API_KEY']}"}
    request = urllib.request.Request(e2b.ConnectionConfig().api_url + path, headers=headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@feature("cli.auth")
def test_a_login_saves_the_team_and_a_key_that_works(person):
    done = person.run("auth", "login")
    assert done.code == 0, done.err + done.out
    assert EMAIL in done.text
    (team,) = asked_api("/teams")
    assert team_of(person.saved) == team["teamID"] and team["isDefault"]
    assert key_of(person.saved) == os.environ["E2B_API_KEY"]
    assert urllib.parse.urlsplit(person.visited.read_text()).path == "/docs/api/cli"

    info = person.run("auth", "info")
    assert info.code == 0 and EMAIL in info.text and team["teamID"] in info.text
    assert person.run("sandbox", "list", "--format", "json").code == 0
    again = person.run("auth", "login")
    assert "Already logged in" in again.text


@feature("cli.auth")
def test_info_and_logout_say_that_nobody_is_logged_in(person):
    assert "Not logged in" in person.run("auth", "info").text
    assert "Not logged in" in person.run("auth", "logout").text
    assert "No user config found" in person.run("auth", "configure").text


@feature("cli.auth")
def test_a_login_with_a_wrong_token_is_refused_in_words(person, tmp_path):
    answer = (tmp_path / "answer").read_text().replace(os.environ["E2B_API_KEY"], "e2b_" + "0" * 40)
    (tmp_path / "answer").write_text(answer)
    done = person.run("auth", "login")
    assert done.code != 0
    assert b"401" in done.err + done.out
    assert not (person.home / ".e2b/config.json").exists()


@feature("cli.auth")
def test_a_logout_forgets_the_key(person, vendor):
    assert person.run("auth", "login").code == 0
    done = person.run("auth", "logout")
    assert done.code == 0 and "Logged out" in done.text
    assert "Not logged in" in person.run("auth", "info").text
    listing = person.run("sandbox", "list", "--format", "json")
    assert listing.code != 0 and b"auth login" in listing.err
    if GENERATION == "new":
        assert [path for path, _ in vendor.asked] == ["/revoke"]


@feature("cli.auth")
def test_configure_lists_the_team_and_selects_it(person, command, vendor):
    assert person.run("auth", "login").code == 0
    (team,) = asked_api("/teams")
    start, environment = command
    terminal = Terminal((start, {**environment, **person.environment}), "auth", "configure")
    try:
        terminal.expect(team["teamID"])
        terminal.type("\r")
        terminal.expect("selected.")
        terminal.end()
    finally:
        terminal.close()
    assert team_of(person.saved) == team["teamID"]
    assert key_of(person.saved) == os.environ["E2B_API_KEY"]
    if GENERATION == "new":
        # The key is no token with a date in it, so the CLI renews it first.
        assert vendor.asked == [("/token", {"grant_type": "refresh_token", "refresh_token": "renew", "client_id": "cli"})]


@feature("cli.auth")
def test_an_access_token_in_the_environment_is_no_hindrance(person):
    key = os.environ["E2B_API_KEY"]
    done = person.run("sandbox", "list", "--format", "json", E2B_API_KEY=key, E2B_ACCESS_TOKEN="sk_e2b_" + "0" * 40)
    assert done.code == 0, done.err
