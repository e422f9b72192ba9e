#!/bin/sh
# Builds the OpenFHE peer:  ./build.sh PATH-TO-OPENFHE [PATH-TO-HEXL] OUTPUT-FOLDER
# The paths are the folders of the installed libraries, OpenFHE static and without OpenMP. OpenFHE
# with the project's HEXL overlay needs Intel HEXL, too; the program is then openfhe_hexl, otherwise
# openfhe_scalar. CXX chooses the compiler.
set -eu
if [ $# -ne 2 ] && [ $# -ne 3 ]; then sed -n '2,5s/^# //p' "$0" >&2; exit 2; fi
openfhe=$1 hexl= out=$2 here=$(cd "$(dirname "$0")" && pwd)
if [ $# -eq 3 ]; then hexl=$2 out=$3; fi
mkdir -p "$out"
name=openfhe_scalar more=
if [ -n "$hexl" ]; then
  version=$(basename "$hexl"/lib*/cmake/hexl-*)
  name=openfhe_hexl more="-DHEXL_VERSION=\"${version#hexl-}\" -I$hexl/include"
  libraries="$(echo "$hexl"/lib*/libhexl.a) $(echo "$hexl"/lib*/libcpu_features.a)"
fi
include=$openfhe/include/openfhe
static="$(echo "$openfhe"/lib*/libOPENFHEpke_static.a) $(echo "$openfhe"/lib*/libOPENFHEbinfhe_static.a) $(echo "$openfhe"/lib*/libOPENFHEcore_static.a)"
version=$(sed -n 's/^set(BASE_OPENFHE_VERSION \(.*\))/\1/p' "$openfhe"/lib*/OpenFHE/OpenFHEConfig.cmake)
${CXX:-g++} -std=c++17 -O3 -DNDEBUG -march=native -DMATHBACKEND=4 "-DVERSION=\"$version\"" $more -I"$include" -I"$include/core" \
  -I"$include/pke" -I"$include/binfhe" -o "$out/$name" "$here/bench.cpp" $static ${libraries-} -pthread
