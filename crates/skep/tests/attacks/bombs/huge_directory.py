# Makes one directory with very many files, which the file API is then asked for.
# Expect: answered

import json
import urllib.error
import urllib.request

os.makedirs("/var/tmp/huge")
for number in range(20_000):
    os.mknod(f"/var/tmp/huge/{number}")
body = json.dumps({"path": "/var/tmp/huge", "depth": 1}).encode()
request = urllib.request.Request("http://127.0.0.1:49983/filesystem.Filesystem/ListDir", data=body, method="POST")
request.add_header("Content-Type", "application/json")
request.add_header("X-Access-Token", os.environ["ATTACK_TOKEN"])
try:
    with urllib.request.urlopen(request, timeout=30) as answer:
        hold(f"answered with {len(json.load(answer)['entries'])} entries")
except urllib.error.HTTPError as error:
    hold(f"answered with status {error.code}")
