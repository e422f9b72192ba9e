#!/bin/sh
# Builds the Lattigo peer:  ./build.sh OUTPUT-FOLDER
# Needs Go, which gets the library named in go.mod. GO is the command, by default go.
set -eu
if [ $# -ne 1 ]; then sed -n '2,3s/^# //p' "$0" >&2; exit 2; fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
${GO:-go} build -o "$out/lattigo" .
