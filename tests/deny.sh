#!/usr/bin/env bash
# Checks licences, sources and the allowed edges between crates. Installs cargo-deny into target/
# when the machine has none.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
tools=target/tools
if command -v cargo-deny >/dev/null 2>&1; then
  deny=cargo-deny
else
  deny=$tools/bin/cargo-deny
  if [ ! -x "$deny" ]; then
    printf 'installing cargo-deny %s into %s\n' "$version" "$tools"
    cargo install --quiet --locked --root "$tools" --version "$version" cargo-deny
  fi
fi
"$deny" --offline check bans licenses sources
