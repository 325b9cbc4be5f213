#!/bin/sh
# libFuzzer on the engine: a million inputs for each target, with AddressSanitizer and
# UndefinedBehaviorSanitizer. Inputs that reached new code stay in build/fuzz/<target>_corpus and
# are the start of the next run; one that fails is left in build/fuzz as crash-*.
#
# Usage: tools/fuzz_core.sh [runs] [target...]     targets: engine region trace (all)
set -eu
cd "$(dirname "$0")/.."
runs=${1:-1000000}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- engine region trace
compiler=${CLANGXX:-clang++}

if ! command -v "$compiler" >/dev/null; then
  echo "fuzz_core: $compiler is missing; Debian: apt-get install clang libclang-rt-14-dev" >&2
  exit 2
fi
mkdir -p build/fuzz
flags="-std=c++17 -O2 -g -fno-omit-frame-pointer -fno-sanitize-recover=all -Icsrc"
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' |
  "$compiler" -x c++ -fsanitize=fuzzer - -o build/fuzz/probe 2>build/fuzz/probe.log; then
  cat build/fuzz/probe.log >&2
  echo "fuzz_core: $compiler has no libFuzzer; Debian: apt-get install libclang-rt-14-dev" >&2
  exit 2
fi
objects=
for source in csrc/core/*.cc csrc/trace/*.cc csrc/detection/*.cc csrc/replay/*.cc; do
  [ "$source" != csrc/detection/finding_dicts.cc ] || continue  # needs Python
  object=build/fuzz/$(echo "$source" | tr / _).o
  # shellcheck disable=SC2086 # a list of flags
  "$compiler" $flags -fsanitize=fuzzer-no-link,address,undefined -c "$source" -o "$object"
  objects="$objects $object"
done
for target in "$@"; do
  # shellcheck disable=SC2086 # lists of flags and files
  "$compiler" $flags -fsanitize=fuzzer,address,undefined "csrc/fuzz/${target}_fuzz.cc" $objects \
    -o "build/fuzz/${target}_fuzz"
  mkdir -p "build/fuzz/${target}_corpus"
  echo "$target: $runs inputs"
  "build/fuzz/${target}_fuzz" -runs="$runs" -max_len=512 -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -print_funcs=0 -verbosity=0 -artifact_prefix=build/fuzz/ "build/fuzz/${target}_corpus"
done
