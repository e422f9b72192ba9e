#!/bin/sh
# The linker of the browser's modules: rust-lld, which exports only the module's own functions.
#
# By default rustc exports every unmangled function of every crate. mls-rs brings wasm-bindgen, and
# some of its functions are among them. Nothing here calls these functions, and they would make the
# module import functions of JavaScript. A function that is neither exported nor called is not
# linked.
exports=
for word do
  shift
  if [ -n "$exports" ]; then
    exports=
    case $word in tobari_*) set -- "$@" --export "$word" ;; esac
  elif [ "$word" = --export ]; then
    exports=1
  else
    set -- "$@" "$word"
  fi
done
# rustc puts the folder of its own tools on the path
[ "$1" = -flavor ] || set -- -flavor wasm "$@"
exec rust-lld "$@"
