#!/bin/sh
# Builds the libsecp256k1 peer:  ./build.sh PATH-TO-LIBSECP256K1 VERSION OUTPUT-FOLDER
# The path is the folder of the installed static library, with its usual window and tables and, on
# x86-64, its assembler. VERSION is its name in the figures.
set -eu
if [ $# -ne 3 ]; then sed -n '2,4s/^# //p' "$0" >&2; exit 2; fi
library=$1 version=$2 out=$3 here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
gcc -O3 -DNDEBUG -DVERSION="\"$version\"" -I"$library/include" -o "$out/libsecp256k1" "$here/bench.c" "$(echo "$library"/lib*/libsecp256k1.a)"
