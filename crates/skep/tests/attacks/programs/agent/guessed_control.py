# Gives itself another identity through the control routes of the agent, with guessed tokens.
# Control: an agent without tokens


def attempt():
    import urllib.error
    import urllib.request

    for guess in ["", "control", "token", "skep", "0", "null", "undefined", given("TOKEN")]:
        request = urllib.request.Request("http://127.0.0.1:49983/init", data=b"{}", method="POST")
        request.add_header("Content-Type", "application/json")
        request.add_header("X-Skep-Control", guess)
        try:
            urllib.request.urlopen(request, timeout=5).read()
            return f"the agent obeys `{guess}`"
        except urllib.error.HTTPError as error:
            last = error.code
    held(f"status {last}")


attack(attempt)
