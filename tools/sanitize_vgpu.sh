#!/bin/sh
# The virtual GPU's runtime and NCCL under AddressSanitizer with UndefinedBehaviorSanitizer, and
# under ThreadSanitizer, driven by random calls from several threads. Needs g++ with its sanitizer
# libraries and what `make test` has installed (CUDA's headers); no torch is loaded.
#
# Usage: tools/sanitize_vgpu.sh [rounds] [seed]
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5}
seed=${2:-$(date +%s)}
compiler=${CXX:-g++}
python=.venv/bin/python
headers=$("$python" -c 'import pathlib, sys
for path in sys.path:
    for file in pathlib.Path(path).glob("nvidia/**/cuda_runtime_api.h"):
        print(file.parent); sys.exit()')
[ -n "$headers" ] || { echo "no CUDA headers: run make setup first" >&2; exit 2; }
generated=build/sanitize/vgpu_generated
mkdir -p "$generated"
"$python" csrc/vgpu/stubs/generate.py errors --out "$generated" --include "$headers"

build() {  # folder, flags
  folder=build/sanitize/vgpu_$1
  shift
  mkdir -p "$folder"
  for source in csrc/vgpu/runtime/*.cc csrc/vgpu/runtime/nccl/*.cc csrc/vgpu/stress/stress.cc; do
    object=$folder/$(basename "$source" .cc).o
    [ "$object" -nt "$source" ] && [ -z "$(find csrc/vgpu -name '*.h' -newer "$object")" ] && continue
    echo "$source -o $object"
  done | xargs -r -L 1 -P "$(nproc)" "$compiler" -std=c++17 -O1 -g1 -D_GLIBCXX_ASSERTIONS \
    -fno-strict-aliasing -fno-omit-frame-pointer "$@" -I"$generated" -isystem "$headers" -c
  "$compiler" "$@" "$folder"/*.o -pthread -ldl -o "$folder/stress"
}

stress() {  # folder
  for schedule in eager lazy extreme:1,2 "random:$seed" "pct:$seed"; do
    "build/sanitize/vgpu_$1/stress" "$rounds" "$seed" "$schedule"
  done
}

echo "AddressSanitizer and UndefinedBehaviorSanitizer:"
build address -fsanitize=address,undefined -fno-sanitize-recover=all
# The runtime lives until the process ends: what it still holds is no leak.
ASAN_OPTIONS=detect_leaks=0 stress address
echo "ThreadSanitizer:"
build thread -fsanitize=thread
TSAN_OPTIONS=halt_on_error=1 stress thread
