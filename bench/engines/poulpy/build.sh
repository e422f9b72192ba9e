#!/bin/sh
# Builds the poulpy peer:  ./build.sh OUTPUT-FOLDER [avx2]
# Needs a nightly Rust, which gets the crates of Cargo.lock, and a processor with AVX-512 IFMA, or
# `avx2` for the library's loops of processors without.
set -eu
if [ $# -ne 1 ] && [ $# -ne 2 ]; then sed -n '2,4s/^# //p' "$0" >&2; exit 2; fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
RUSTFLAGS="-C target-cpu=native" cargo +nightly build --locked --release --target-dir "$out/poulpy-target" \
  --no-default-features --features "${2-avx512}"
cp "$out/poulpy-target/release/poulpy" "$out/poulpy"
