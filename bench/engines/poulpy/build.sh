#!/bin/sh
# Builds the poulpy peer:  ./build.sh OUTPUT-FOLDER
# Needs a nightly Rust, which gets the crates of Cargo.lock, and a processor with AVX-512 IFMA.
set -eu
if [ $# -ne 1 ]; then sed -n '2,3s/^# //p' "$0" >&2; exit 2; fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
RUSTFLAGS="-C target-cpu=native" cargo +nightly build --locked --release --target-dir "$out/poulpy-target"
cp "$out/poulpy-target/release/poulpy" "$out/poulpy"
