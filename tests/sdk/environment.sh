#!/usr/bin/env bash
# Makes the environments of the official SDKs under target/sdk. Does nothing when they stand.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/sdk
there=target/sdk
mkdir -p "$there"

if ! cmp -s "$here/requirements.txt" "$there/python/installed.txt"; then
  printf 'sdk: installing the Python SDKs into %s/python\n' "$there"
  python3 -m venv --clear "$there/python"
  "$there/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
  cp "$here/requirements.txt" "$there/python/installed.txt"
fi
if ! cmp -s "$here/package.json" "$there/node/installed.json"; then
  printf 'sdk: installing the Node SDKs into %s/node\n' "$there"
  mkdir -p "$there/node"
  cp "$here/package.json" "$there/node/package.json"
  (cd "$there/node" && npm install --silent --no-audit --no-fund)
  cp "$here/package.json" "$there/node/installed.json"
fi
# Node looks for packages beside the script.
cp -R "$here"/*.mjs "$here/abilities.json" "$here/node" "$there/node/"
