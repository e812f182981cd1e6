#!/bin/sh
# Create a sandbox, run code in it, kill it: with curl and nothing else.
# E2B_API_KEY and E2B_API_URL are those that `make up` prints.
set -eu

api() {
    curl --silent --show-error --fail-with-body -H "X-API-Key: $E2B_API_KEY" "$@"
}
# The value of a field in a flat JSON object.
field() {
    sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
}

made=$(api "$E2B_API_URL/v2/sandboxes" --json '{"templateID": "code-interpreter-v1", "timeout": 60}')
id=$(echo "$made" | field sandboxID)
token=$(echo "$made" | field envdAccessToken)
trap 'api -X DELETE "$E2B_API_URL/sandboxes/$id"' EXIT
echo "sandbox $id"

# A port of a sandbox is reached by two headers. The interpreter listens on 49999 and answers with one line of
# JSON for each thing that happens, at once.
run_code() {
    curl --silent --show-error --fail-with-body --no-buffer "$E2B_API_URL/execute" \
        -H "E2b-Sandbox-Id: $id" -H "E2b-Sandbox-Port: 49999" -H "X-Access-Token: $token" --json "$1"
}
run_code '{"code": "x = 6\nprint(\"hello\")"}'
run_code '{"code": "x * 7"}'

# The agent listens on 49983: files, for instance.
curl --silent --show-error --fail-with-body "$E2B_API_URL/files?path=/etc/hostname&username=user" \
    -H "E2b-Sandbox-Id: $id" -H "E2b-Sandbox-Port: 49983" -H "X-Access-Token: $token"
