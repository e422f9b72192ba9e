#!/bin/sh
# Builds the mcl peer from a checkout of mcl:  ./build.sh PATH-TO-MCL OUTPUT-FOLDER
# Two programs, since mcl is faster when it is compiled for 256 bits; OUTPUT-FOLDER/mcl picks the right one.
set -eu
mcl=$1 out=$2 here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
for bits in 256 384; do
  flags="-O3 -DNDEBUG -march=native -fno-threadsafe-statics -DMCL_FP_BIT=$bits -DMCL_FR_BIT=$bits -DMCL_USE_LLVM=1 -DMCL_BINT_ASM=1 -DMCL_MSM=0 -I$mcl/include"
  g++ $flags -o "$out/mcl$bits" "$here/bench.cpp" "$mcl/src/fp.cpp" "$mcl/src/asm/x86-64.S" "$mcl/src/asm/bint-x64-amd64.S"
done
printf '#!/bin/sh\ncase $1 in *384*) bits=384 ;; *) bits=256 ;; esac\nexec "$(dirname "$0")/mcl$bits" "$@"\n' > "$out/mcl"
chmod +x "$out/mcl"
