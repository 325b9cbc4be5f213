// Byte ranges, and rows of bytes at a fixed distance.
#ifndef STREAMGUARD_CORE_REGION_H_
#define STREAMGUARD_CORE_REGION_H_

#include <cstdint>
#include <optional>

namespace streamguard::core {

using Address = std::uint64_t;

// Half-open range of bytes. Empty when end <= begin.
struct ByteRange {
  Address begin = 0;
  Address end = 0;

  bool is_empty() const { return end <= begin; }
  std::uint64_t size_bytes() const { return is_empty() ? 0 : end - begin; }
  bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
  bool contains(const ByteRange& other) const { return begin <= other.begin && other.end <= end; }
  friend bool operator==(const ByteRange& a, const ByteRange& b) {
    return a.begin == b.begin && a.end == b.end;
  }
};

// What one access touches: `rows` rows of `width` bytes, the k-th starting at begin + k * pitch.
//
// A plain range is one row. `normalized()` is the only form the engine stores: an empty region has
// no rows; one row, or rows that touch or overlap (pitch <= width), become one row with pitch ==
// width; otherwise pitch > width and rows > 1.
// REQUIRES: the last byte's address fits in 64 bits.
struct Region {
  Address begin = 0;
  std::uint64_t width = 0;
  std::uint64_t pitch = 0;
  std::uint64_t rows = 0;

  static Region of_range(const ByteRange& range);

  Region normalized() const;
  bool is_empty() const { return width == 0 || rows == 0; }
  bool is_contiguous() const { return rows <= 1 || pitch <= width; }
  // Smallest range that holds every byte; empty for an empty region.
  ByteRange bounds() const;

  friend bool operator==(const Region& a, const Region& b) {
    return a.begin == b.begin && a.width == b.width && a.pitch == b.pitch && a.rows == b.rows;
  }
};

// First run of bytes that both regions touch inside `window`, or nothing. Exact: decided by
// arithmetic on the rows, never by the bounds. O(log rows), independent of bytes.
std::optional<ByteRange> first_overlap(const Region& a, const Region& b, const ByteRange& window);
std::optional<ByteRange> first_overlap(const Region& a, const Region& b);

// Whether every byte of `inner` inside `window` belongs to `outer`. May answer no for a pair of
// unlike pitches that in truth is covered; never answers yes for one that is not.
bool covers(const Region& outer, const Region& inner, const ByteRange& window);

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_REGION_H_
