#!/bin/sh
# Builds the libsecp256k1 peer from a checkout of bitcoin-core/secp256k1:  ./build.sh PATH-TO-SECP256K1 OUTPUT-FOLDER
# Needs gcc only. The library's usual window and tables, and its assembler on x86-64, which does not compile with
# -march=native and is faster than the C that does.
set -eu
library=$1 out=$2 here=$(cd "$(dirname "$0")" && pwd)
version=$(git -C "$library" describe --tags --always)
version=${version#v}
mkdir -p "$out"
assembler=
if [ "$(uname -m)" = x86_64 ]; then assembler=-DUSE_ASM_X86_64=1; fi
gcc -O3 -DNDEBUG $assembler -DVERSION="\"$version\"" -I"$library/include" -o "$out/libsecp256k1" \
  "$here/bench.c" "$library/src/secp256k1.c" "$library/src/precomputed_ecmult.c" "$library/src/precomputed_ecmult_gen.c"
