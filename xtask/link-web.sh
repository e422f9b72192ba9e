#!/bin/sh
# The linker of the browser's modules: rust-lld, told to export what is the module's own.
#
# rustc has a module export every unmangled function of every crate in it. With mls-rs comes wasm-bindgen, and some of those are functions of its, which
# nothing here calls and which would have the module import functions of JavaScript. What is neither exported nor called is not linked.
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
# rustc has put the folder of its own tools on the path
[ "$1" = -flavor ] || set -- -flavor wasm "$@"
exec rust-lld "$@"
