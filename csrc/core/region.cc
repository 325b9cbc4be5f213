#include "core/region.h"

#include <algorithm>

namespace streamguard::core {
namespace {

__extension__ using Wide = __int128;
__extension__ using WideUnsigned = unsigned __int128;

WideUnsigned divide_up(WideUnsigned value, WideUnsigned by) { return (value + by - 1) / by; }

// Smallest x >= 0 with low <= step * x mod modulus <= high. Euclid's algorithm on (step, modulus):
// either the first multiple of `step` past `low` fits, or the question is asked again about the
// number of wraps, modulo `step`.
// REQUIRES: low <= high < modulus.
std::optional<WideUnsigned> first_multiple_in(std::uint64_t step, std::uint64_t modulus,
                                              std::uint64_t low, std::uint64_t high) {
  if (low == 0) return 0;
  step %= modulus;
  if (step == 0) return std::nullopt;
  if (step > modulus - step) {
    return first_multiple_in(modulus - step, modulus, modulus - high, modulus - low);
  }
  const WideUnsigned direct = divide_up(low, step);
  if (direct * step <= high) return direct;
  // No multiple of `step` lies in [low, high], so both remainders keep their order.
  const std::uint64_t wrapped_low = (step - high % step) % step;
  const std::uint64_t wrapped_high = (step - low % step) % step;
  const auto wraps = first_multiple_in(modulus % step, step, wrapped_low, wrapped_high);
  if (!wraps) return std::nullopt;
  return divide_up(*wraps * modulus + low, step);
}

// First run of `region` inside `range`.
std::optional<ByteRange> first_run_in(const Region& region, const ByteRange& range) {
  if (range.is_empty()) return std::nullopt;
  std::uint64_t row = 0;
  if (range.begin >= region.begin + region.width) {
    // First row that ends after range.begin.
    row = (range.begin - region.begin - region.width) / region.pitch + 1;
  }
  if (row >= region.rows) return std::nullopt;
  const Address row_begin = region.begin + row * region.pitch;
  const ByteRange run{std::max(row_begin, range.begin),
                      std::min(row_begin + region.width, range.end)};
  if (run.is_empty()) return std::nullopt;
  return run;
}

ByteRange clip(const ByteRange& range, const ByteRange& window) {
  return {std::max(range.begin, window.begin), std::min(range.end, window.end)};
}

ByteRange row_of(const Region& region, std::uint64_t row) {
  const Address begin = region.begin + row * region.pitch;
  return {begin, begin + region.width};
}

// First row of `a` in [from, to) that touches `b`, where every such row lies between b's first and
// last byte. Row i starts s = a.begin - b.begin + i * a.pitch behind b's start, and touches a row
// of b exactly when a multiple of b.pitch lies in [s - b.width + 1, s + a.width - 1].
std::optional<std::uint64_t> first_touching_row(const Region& a, const Region& b,
                                                std::uint64_t from, std::uint64_t to) {
  if (from >= to) return std::nullopt;
  if (a.width + b.width - 1 >= b.pitch) return from;
  const Wide start = static_cast<Wide>(a.begin) - b.begin + static_cast<Wide>(from) * a.pitch;
  const std::uint64_t modulus = b.pitch;
  const auto phase = static_cast<std::uint64_t>((start + a.width - 1) % modulus);
  const std::uint64_t slack = a.width + b.width - 2;
  if (phase <= slack) return from;
  const std::uint64_t low = modulus - phase;
  const auto steps = first_multiple_in(a.pitch % modulus, modulus, low, low + slack);
  if (!steps || *steps >= to - from) return std::nullopt;
  return from + static_cast<std::uint64_t>(*steps);
}

}  // namespace

Region Region::of_range(const ByteRange& range) {
  if (range.is_empty()) return {range.begin, 0, 0, 0};
  return {range.begin, range.size_bytes(), range.size_bytes(), 1};
}

Region Region::normalized() const {
  if (is_empty()) return {begin, 0, 0, 0};
  if (!is_contiguous()) return *this;
  return of_range(bounds());
}

ByteRange Region::bounds() const {
  if (is_empty()) return {begin, begin};
  return {begin, begin + (rows - 1) * pitch + width};
}

std::optional<ByteRange> first_overlap(const Region& a, const Region& b, const ByteRange& window) {
  if (a.is_empty() || b.is_empty()) return std::nullopt;
  const ByteRange shared = clip(clip(a.bounds(), b.bounds()), window);
  if (shared.is_empty()) return std::nullopt;
  if (a.is_contiguous()) return first_run_in(b.normalized(), shared);
  if (b.is_contiguous()) return first_run_in(a, shared);

  // Rows of a that reach into `shared`. The first and the last may be cut by it: they are looked
  // at one by one; the rows between lie wholly between b's first and last byte.
  const std::uint64_t first =
      shared.begin < a.begin + a.width ? 0 : (shared.begin - a.begin - a.width) / a.pitch + 1;
  const std::uint64_t last = std::min(a.rows - 1, (shared.end - 1 - a.begin) / a.pitch);
  if (first > last) return std::nullopt;
  if (auto run = first_run_in(b, clip(row_of(a, first), shared))) return run;
  if (auto row = first_touching_row(a, b, first + 1, last)) {
    return first_run_in(b, row_of(a, *row));
  }
  if (last == first) return std::nullopt;
  return first_run_in(b, clip(row_of(a, last), shared));
}

std::optional<ByteRange> first_overlap(const Region& a, const Region& b) {
  return first_overlap(a, b, a.bounds());
}

bool covers(const Region& outer, const Region& inner, const ByteRange& window) {
  const ByteRange needed = clip(inner.bounds(), window);
  if (inner.is_empty() || needed.is_empty()) return true;
  if (outer.is_empty()) return false;
  if (outer.is_contiguous()) return outer.bounds().contains(needed);
  if (inner.is_contiguous()) {
    const auto run = first_run_in(outer, needed);
    return run && *run == needed;
  }
  if (outer.pitch != inner.pitch || !outer.bounds().contains(needed)) return false;
  // Same pitch: one row of inner inside a row of outer, then all are. Both bounds were checked, so
  // every row of inner in the window has its row of outer.
  const Wide distance = static_cast<Wide>(inner.begin) - outer.begin;
  const Wide phase = ((distance % outer.pitch) + outer.pitch) % outer.pitch;
  return phase + inner.width <= outer.width;
}

}  // namespace streamguard::core
