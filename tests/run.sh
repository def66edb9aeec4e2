#!/usr/bin/env bash
# Everything that must hold before a change lands: format, lints, licences and crate edges, and all
# tests, against a real etcd and the official OpenAI SDKs (and a Redis, for the test kit itself). Starts what it needs on free
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

step "tests"
# The suites start the binary, so it is built first.
cargo build --locked --package sluicegate
cargo test --workspace --locked --no-fail-fast
