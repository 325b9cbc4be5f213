#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/region.h"

namespace streamguard::hooks {

/// What the gradients of one optimizer are called, by the bucket they lie in.
///
/// A trainer names every gradient of every step. The text is made once, for the first time that a
/// parameter's gradient lies in a bucket of a name; afterwards one call finds and gives it.
///
/// Thread safety: none; callers hold the GIL.
/// Invariant: holds no tensor alive, and takes none for another that had its address.
class GradientTexts {
 public:
  using Bucket = std::tuple<at::Tensor, std::string>;  // its name

  /// Replaces the buckets.
  void set_buckets(const std::vector<Bucket>& buckets);
  /// From now on the gradient of `parameter` is called `text` when it lies in a bucket of the same
  /// name as now. One outside of all buckets is never known: it may lie in a bucket that is new.
  /// `gradient`: the parameter's own, unless given.
  void learn(const at::Tensor& parameter, const std::optional<at::Tensor>& gradient,
             const std::string& text);
  /// Names the bytes of the gradient of `parameter` from op `since` on, if it has a text where it
  /// lies. Returns: false when it has none. There may be no gradient: nothing is named then.
  bool name(const at::Tensor& parameter, const std::optional<at::Tensor>& gradient,
            uint64_t since) const;

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Place {
    WeakTensor tensor;
    core::ByteRange bytes;
    size_t name;  // in bucket_names_
  };
  struct Texts {
    WeakTensor parameter;  // as long as it is held, no other parameter gets this address
    std::vector<std::pair<size_t, std::string>> by_bucket;
  };

  std::optional<size_t> bucket_around(core::Address address) const;

  std::vector<std::string> bucket_names_;
  std::vector<Place> buckets_;
  std::unordered_map<const c10::TensorImpl*, Texts> texts_;
};

}  // namespace streamguard::hooks
