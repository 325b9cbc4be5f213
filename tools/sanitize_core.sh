#!/bin/sh
# The engine under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer, on
# random inputs of the fuzz targets. Needs g++ with its sanitizer libraries, no clang.
#
# Usage: tools/sanitize_core.sh [inputs] [seed]
set -eu
cd "$(dirname "$0")/.."
inputs=${1:-20000}
seed=${2:-$(date +%s)}
compiler=${CXX:-g++}

build() {  # folder, flags
  folder=build/sanitize/$1
  shift
  mkdir -p "$folder"
  objects=
  for source in csrc/core/*.cc csrc/fuzz/random_inputs.cc; do
    object=$folder/$(basename "$source" .cc).o
    "$compiler" -std=c++17 -O1 -g -D_GLIBCXX_ASSERTIONS -fno-omit-frame-pointer "$@" \
      -Icsrc -c "$source" -o "$object"
    objects="$objects $object"
  done
  for target in engine region; do
    # shellcheck disable=SC2086 # a list of files
    "$compiler" -std=c++17 -O1 -g -D_GLIBCXX_ASSERTIONS "$@" -Icsrc \
      "csrc/fuzz/${target}_fuzz.cc" $objects -pthread -o "$folder/${target}_fuzz"
  done
}

echo "AddressSanitizer and UndefinedBehaviorSanitizer:"
build address -fsanitize=address,undefined -fno-sanitize-recover=all
for target in engine region; do
  "build/sanitize/address/${target}_fuzz" "$inputs" "$seed"
done
echo "ThreadSanitizer, two threads with an engine each:"
build thread -fsanitize=thread
for target in engine region; do
  TSAN_OPTIONS=halt_on_error=1 "build/sanitize/thread/${target}_fuzz" "$inputs" "$seed" 2
done
