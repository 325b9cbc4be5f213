// Overlap and cover of regions against their bytes, one by one.
#include <algorithm>
#include <bitset>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "core/region.h"
#include "fuzz/input_bytes.h"

namespace {

using namespace streamguard::core;
using streamguard::fuzz::InputBytes;

constexpr std::size_t kBytes = 2048;
using Bytes = std::bitset<kBytes>;

Region region(InputBytes& input) {
  const Region made{input.below(200), input.below(24), input.below(64), input.below(24)};
  return made.normalized();
}

Bytes bytes_of(const Region& region) {
  Bytes bytes;
  for (std::uint64_t row = 0; row < region.rows; ++row) {
    for (std::uint64_t at = 0; at < region.width; ++at) {
      bytes.set(region.begin + row * region.pitch + at);
    }
  }
  return bytes;
}

[[noreturn]] void fail(const char* reason) {
  std::fprintf(stderr, "region_fuzz: %s\n", reason);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  InputBytes input(data, size);
  const Region a = region(input);
  const Region b = region(input);
  const Address begin = input.below(250) * 4;
  const ByteRange window{begin, begin + input.below(250) * 4};
  Bytes in_window;
  for (Address at = window.begin; at < std::min<Address>(window.end, kBytes); ++at) {
    in_window.set(at);
  }
  const Bytes shared = bytes_of(a) & bytes_of(b) & in_window;
  const auto run = first_overlap(a, b, window);
  if (run.has_value() != shared.any()) fail("regions overlap and have no shared byte, or not");
  if (run) {
    const Address first = shared._Find_first();
    if (run->begin != first) fail("the first shared byte is another");
    for (Address at = run->begin; at < run->end; ++at) {
      if (!shared.test(at)) fail("a byte of the run is not shared");
    }
  }
  // `covers` may say no where rows of unlike pitch cover each other by chance, never wrongly yes.
  if (covers(a, b, window) && (bytes_of(b) & in_window & ~bytes_of(a)).any()) {
    fail("not covered");
  }
  return 0;
}
