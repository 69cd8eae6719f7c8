#!/usr/bin/env bash
# Fuzzes the API of `hanbeon local` with everything that docs/openapi.json describes, and with what it forbids: no 5xx, and no answer that is not in the document.
#   testdata/fuzz/run.sh PATH-OF-HANBEON PATH-OF-SCHEMATHESIS [more arguments for schemathesis]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
hanbeon=$(realpath "$1") schemathesis=$(realpath "$2")
shift 2

work=$(mktemp -d)
cleanup() {
  kill "$server" 2>/dev/null && wait "$server" 2>/dev/null || true
  rm -rf "$work"
}
server=
trap cleanup EXIT
cd "$work"

"$hanbeon" members sample --count 50 >members.csv
"$hanbeon" members import members.csv
"$hanbeon" local --listen 127.0.0.1:0 >out 2>log &
server=$!
for _ in $(seq 600); do
  test -s data/hanbeon.db.api.json && break
  kill -0 "$server" || { cat log; exit 1; }
  sleep 0.1
done
field() { python3 -c 'import json, sys; print(json.load(open("data/hanbeon.db.api.json"))[sys.argv[1]])' "$1"; }
FUZZ_KEY_ID=$(field accessKeyId) FUZZ_SECRET=$(field secretAccessKey) FUZZ_REGION=$(field region)
export FUZZ_KEY_ID FUZZ_SECRET FUZZ_REGION

status=0
PYTHONPATH="$here" SCHEMATHESIS_HOOKS=sign "$schemathesis" --config-file "$here/schemathesis.toml" run "$here/../../docs/openapi.json" --url "$(field endpoint)" "$@" || status=$?
if grep -q '"status":5' log; then
  echo "the log of the server has answers of 5xx:"
  grep '"status":5' log | head -5
  status=1
fi
kill -INT "$server" && wait "$server" || { echo "hanbeon local did not end well"; tail -5 log; status=1; }
server=
"$hanbeon" audit || status=1 # whatever was fuzzed, every invariant holds
exit "$status"
