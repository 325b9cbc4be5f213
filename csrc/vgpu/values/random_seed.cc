#include "random_seed.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include <atomic>

namespace streamguard::values {
namespace {

// Source: SplitMix64 output function, Steele, Lea and Flood 2014, figure 16 (variant 13 of
// Stafford).
std::uint64_t mix(std::uint64_t state) {
  state += 0x9E3779B97F4A7C15ULL;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
  return state ^ (state >> 31);
}

at::Generator generator_of(const OpProfile& profile, c10::ArrayRef<c10::IValue> arguments,
                           c10::Device device) {
  if (profile.generator_argument) {
    const c10::IValue& argument = arguments[*profile.generator_argument];
    // A generator of another device is refused by the previous kernel, with torch's message.
    if (argument.isGenerator() && argument.toGenerator().device().is_cuda()) {
      return argument.toGenerator();
    }
  }
  return at::globalContext().defaultGenerator(device);
}

}  // namespace

std::uint64_t seed_at_issue(const OpProfile& profile, c10::ArrayRef<c10::IValue> arguments,
                            c10::Device device, bool is_capturing) {
  if (is_capturing) {
    static std::atomic<std::uint64_t> captured_random_ops{0};
    return mix(~captured_random_ops.fetch_add(1, std::memory_order_relaxed));
  }
  const at::Generator generator = generator_of(profile, arguments, device);
  return mix(mix(generator.current_seed()) ^ generator.get_offset());
}

std::uint64_t seed_of_run(std::uint64_t seed, std::uint64_t run) {
  return run == 0 ? seed : mix(seed ^ mix(run));
}

}  // namespace streamguard::values
