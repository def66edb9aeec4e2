#!/usr/bin/env bash
# Builds Sluicegate and starts both planes in one process. Options go to 'sluicegate run'.
set -euo pipefail
cd "$(dirname "$0")/.."
deploy/setup.sh
cargo build --release --locked --package sluicegate
exec target/release/sluicegate run "$@"
