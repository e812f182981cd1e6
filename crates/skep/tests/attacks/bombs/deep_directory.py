# Makes directories in directories, deeper than any path is long, and has the file API remove them.
# Expect: removed

import json
import urllib.request

os.makedirs("/var/tmp/deep")
os.chdir("/var/tmp/deep")
for _ in range(4000):
    os.mkdir("d")
    os.chdir("d")
os.chdir("/")
body = json.dumps({"path": "/var/tmp/deep"}).encode()
request = urllib.request.Request("http://127.0.0.1:49983/filesystem.Filesystem/Remove", data=body, method="POST")
request.add_header("Content-Type", "application/json")
request.add_header("X-Access-Token", os.environ["ATTACK_TOKEN"])
request.add_header("Authorization", "Basic cm9vdDo=")
urllib.request.urlopen(request, timeout=30).read()
if os.path.exists("/var/tmp/deep"):
    escape("it is still there")
hold("removed 4000 levels")
