#!/bin/sh
# Builds the peer with Microsoft SEAL:  ./build.sh PATH-TO-SEAL [PATH-TO-HEXL] OUTPUT-FOLDER
# The paths are the folders of the installed libraries. SEAL with Intel HEXL needs HEXL's path, too;
# the program is then seal_hexl, otherwise seal_scalar. CXX chooses the compiler.
set -eu
if [ $# -ne 2 ] && [ $# -ne 3 ]; then sed -n '2,4s/^# //p' "$0" >&2; exit 2; fi
seal=$1 hexl= out=$2 here=$(cd "$(dirname "$0")" && pwd)
if [ $# -eq 3 ]; then hexl=$2 out=$3; fi
mkdir -p "$out"
name=seal_scalar more=
if [ -n "$hexl" ]; then
  version=$(basename "$hexl"/lib*/cmake/hexl-*)
  name=seal_hexl more="-DHEXL_VERSION=\"${version#hexl-}\" -I$hexl/include"
  libraries="$(echo "$hexl"/lib*/libhexl.a) $(echo "$hexl"/lib*/libcpu_features.a)"
fi
${CXX:-g++} -std=c++17 -O3 -DNDEBUG -march=native $more -I"$(echo "$seal"/include/SEAL-*)" -o "$out/$name" "$here/bench.cpp" \
  "$(echo "$seal"/lib*/libseal-*.a)" ${libraries-} -pthread
