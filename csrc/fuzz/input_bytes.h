// Reads decisions out of fuzzer input.
#ifndef STREAMGUARD_FUZZ_INPUT_BYTES_H_
#define STREAMGUARD_FUZZ_INPUT_BYTES_H_

#include <cstddef>
#include <cstdint>

namespace streamguard::fuzz {

// Input that has ended reads as zeros, so that each prefix of an input is an input.
class InputBytes {
 public:
  InputBytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  bool has_ended() const { return at_ >= size_; }
  std::uint8_t byte() { return has_ended() ? 0 : data_[at_++]; }
  // REQUIRES: count > 0.
  std::uint32_t below(std::uint32_t count) { return byte() % count; }
  bool flag() { return (byte() & 1) != 0; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

}  // namespace streamguard::fuzz

#endif  // STREAMGUARD_FUZZ_INPUT_BYTES_H_
