#include "hooks/regions.h"

#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

namespace streamguard::hooks {
namespace {

struct Dimension {
  int64_t size;
  int64_t stride_bytes;
};

using Dimensions = c10::SmallVector<Dimension, 8>;

// Dimensions that move the address, smallest stride first.
Dimensions moving_dimensions(const at::Tensor& tensor) {
  Dimensions dimensions;
  const int64_t item_bytes = static_cast<int64_t>(tensor.itemsize());
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    const int64_t size = tensor.size(i);
    const int64_t stride_bytes = tensor.stride(i) * item_bytes;
    if (size > 1 && stride_bytes != 0) dimensions.push_back({size, stride_bytes});
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride_bytes < b.stride_bytes; });
  return dimensions;
}

// Merges into one run every dimension whose steps leave no gap; returns the run's length.
int64_t absorb_into_run(Dimensions& dimensions, int64_t item_bytes) {
  int64_t width = item_bytes;
  size_t absorbed = 0;
  while (absorbed < dimensions.size() && dimensions[absorbed].stride_bytes <= width) {
    width += (dimensions[absorbed].size - 1) * dimensions[absorbed].stride_bytes;
    ++absorbed;
  }
  dimensions.erase(dimensions.begin(), dimensions.begin() + absorbed);
  return width;
}

// Merges a dimension into a finer one when its steps continue the finer one's rows without a gap:
// multiples of the pitch, no longer than the rows reach.
void merge_lattices(Dimensions& dimensions) {
  for (size_t fine = 0; fine < dimensions.size(); ++fine) {
    size_t coarse = fine + 1;
    while (coarse < dimensions.size()) {
      const int64_t pitch = dimensions[fine].stride_bytes;
      const int64_t stride_bytes = dimensions[coarse].stride_bytes;
      if (stride_bytes % pitch == 0 && stride_bytes / pitch <= dimensions[fine].size) {
        dimensions[fine].size += (dimensions[coarse].size - 1) * (stride_bytes / pitch);
        dimensions.erase(dimensions.begin() + coarse);
      } else {
        ++coarse;
      }
    }
  }
}

core::Access rows_access(uint64_t begin, uint64_t width, const Dimension& rows,
                         core::AccessKind kind) {
  return {core::Region{begin, width, static_cast<uint64_t>(rows.stride_bytes),
                       static_cast<uint64_t>(rows.size)},
          kind};
}

}  // namespace

bool append_regions(const at::Tensor& tensor, core::AccessKind kind,
                    std::vector<core::Access>& accesses) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!tensor.defined() || !impl->has_storage() || tensor.numel() == 0) return true;
  const auto* storage = static_cast<const char*>(impl->unsafe_storage().data());
  if (storage == nullptr) return true;
  const int64_t item_bytes = static_cast<int64_t>(tensor.itemsize());
  const auto begin = reinterpret_cast<uint64_t>(storage + tensor.storage_offset() * item_bytes);
  if (tensor.is_non_overlapping_and_dense()) {
    const auto width = static_cast<uint64_t>(tensor.numel() * item_bytes);
    accesses.push_back({core::Region{begin, width, width, 1}, kind});
    return true;
  }

  Dimensions dimensions = moving_dimensions(tensor);
  const auto width = static_cast<uint64_t>(absorb_into_run(dimensions, item_bytes));
  if (dimensions.empty()) {
    accesses.push_back({core::Region{begin, width, width, 1}, kind});
    return true;
  }
  merge_lattices(dimensions);
  // The longest remaining dimension becomes the rows: that leaves the fewest regions.
  const auto longest =
      std::max_element(dimensions.begin(), dimensions.end(),
                       [](const Dimension& a, const Dimension& b) { return a.size < b.size; });
  const Dimension rows = *longest;
  dimensions.erase(longest);

  c10::SmallVector<int64_t, 8> index(dimensions.size(), 0);
  for (int64_t regions = 0; regions < kMaxRegionsPerTensor; ++regions) {
    uint64_t offset = 0;
    for (size_t i = 0; i < dimensions.size(); ++i) {
      offset += static_cast<uint64_t>(index[i] * dimensions[i].stride_bytes);
    }
    accesses.push_back(rows_access(begin + offset, width, rows, kind));
    size_t digit = 0;
    while (digit < dimensions.size() && ++index[digit] == dimensions[digit].size)
      index[digit++] = 0;
    if (digit == dimensions.size()) return true;
  }
  return false;
}

}  // namespace streamguard::hooks
