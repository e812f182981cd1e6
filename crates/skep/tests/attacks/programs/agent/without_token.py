# Starts a process as root through the agent, without its token.
# Control: an agent without tokens


def attempt():
    import json
    import urllib.error
    import urllib.request

    body = json.dumps({"process": {"cmd": "id"}}).encode()
    request = urllib.request.Request("http://127.0.0.1:49983/process.Process/List", data=b"{}", method="POST")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read(100)
    except urllib.error.HTTPError as error:
        held(f"status {error.code}")


attack(attempt)
