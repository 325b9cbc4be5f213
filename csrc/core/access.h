// One op's accesses as the caller states them.
#ifndef STREAMGUARD_CORE_ACCESS_H_
#define STREAMGUARD_CORE_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/region.h"

namespace streamguard::core {

enum class AccessKind : std::uint8_t { kRead, kWrite };

// One region read or written by one op. `allocation` is for callers that know which block was
// meant (a graph with baked addresses, litmus): kNoAllocation lets the engine look up the newest
// block at the region's first byte.
struct Access {
  Region region;
  AccessKind kind = AccessKind::kRead;
  AllocationId allocation = kNoAllocation;
};

// The caller's names of one op, handed back in findings.
struct OpInfo {
  LabelId label;
  SiteId site;
};

// View of consecutive accesses; std::span is C++20. Valid while the caller's array lives.
class AccessSpan {
 public:
  AccessSpan() = default;
  AccessSpan(const Access* data, std::size_t size) : data_(data), size_(size) {}
  AccessSpan(const std::vector<Access>& accesses)  // NOLINT: conversion is the purpose
      : data_(accesses.data()), size_(accesses.size()) {}
  template <std::size_t size>
  AccessSpan(const Access (&accesses)[size])  // NOLINT: conversion is the purpose
      : data_(accesses), size_(size) {}

  const Access* begin() const { return data_; }
  const Access* end() const { return data_ + size_; }
  std::size_t size() const { return size_; }
  const Access& operator[](std::size_t index) const { return data_[index]; }

 private:
  const Access* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_ACCESS_H_
