// Reproducible random numbers without state.
#ifndef STREAMGUARD_VGPU_RUNTIME_MIX_H_
#define STREAMGUARD_VGPU_RUNTIME_MIX_H_

#include <cstdint>

namespace streamguard::vgpu {

// splitmix64's output function over a seed and two numbers.
inline uint64_t mix(uint64_t seed, uint64_t first, uint64_t second) {
  uint64_t z =
      seed * 0x9e3779b97f4a7c15u + first * 0xd1342543de82ef95u + (second + 1) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_MIX_H_
