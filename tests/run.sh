#!/usr/bin/env bash
# Everything that must hold before a change lands: format, lints, licences and crate edges, and all
# tests, against a real etcd, a real Redis and the official SDKs of the providers. Starts what it needs on free
# ports and stops it.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "what this machine lacks"
deploy/setup.sh --tests
tests/sdk/environment.sh

step "format"
cargo fmt --all -- --check

step "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings

step "licences and crate edges"
tests/deny.sh

step "races, in every interleaving"
RUSTFLAGS="--cfg sluicegate_loom" cargo test --locked --target-dir target/loom \
  --package sluicegate-protocol --lib races

step "tests"
# The suites start the binary, so it is built first.
cargo build --locked --package sluicegate
cargo test --workspace --locked --no-fail-fast
