#!/bin/sh
# Builds the mcl peer:  ./build.sh HEADERS LIBRARY-256 LIBRARY-384 OUTPUT-FOLDER
# OUTPUT-FOLDER/mcl picks one of two programs, as mcl is faster compiled for 256 bits. The static
# libraries have MCL_FP_BIT=MCL_FR_BIT=256 or 384, MCL_USE_LLVM=1, MCL_BINT_ASM=1 and MCL_MSM=0.
set -eu
if [ $# -ne 4 ]; then sed -n '2,4s/^# //p' "$0" >&2; exit 2; fi
headers=$1 library256=$2 library384=$3 out=$4 here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
for bits in 256 384; do
  eval library=\$library$bits
  flags="-O3 -DNDEBUG -march=native -fno-threadsafe-statics -DMCL_FP_BIT=$bits -DMCL_FR_BIT=$bits -DMCL_USE_LLVM=1 -DMCL_BINT_ASM=1 -DMCL_MSM=0 -I$headers"
  g++ $flags -o "$out/mcl$bits" "$here/bench.cpp" "$library"
done
printf '#!/bin/sh\ncase $1 in *384*) bits=384 ;; *) bits=256 ;; esac\nexec "$(dirname "$0")/mcl$bits" "$@"\n' > "$out/mcl"
chmod +x "$out/mcl"
