#include "hooks/gradient_texts.h"

#include <algorithm>
#include <iterator>

#include "hooks/detector.h"

namespace streamguard::hooks {
namespace {

// Empty for a gradient whose bytes have no name: there is none, or it is not on a device.
core::ByteRange bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda() || !tensor.has_storage() || tensor.numel() == 0) {
    return {};
  }
  const auto begin = reinterpret_cast<core::Address>(tensor.const_data_ptr());
  return {begin, begin + static_cast<core::Address>(tensor.numel()) * tensor.itemsize()};
}

core::ByteRange bytes_of_gradient(const at::Tensor& parameter,
                                  const std::optional<at::Tensor>& gradient) {
  return bytes_of(gradient ? *gradient : parameter.grad());
}

}  // namespace

void GradientTexts::set_buckets(const std::vector<Bucket>& buckets) {
  buckets_.clear();
  for (const auto& [tensor, name] : buckets) {
    auto known = std::find(bucket_names_.begin(), bucket_names_.end(), name);
    if (known == bucket_names_.end()) known = bucket_names_.insert(known, name);
    const auto number = static_cast<size_t>(std::distance(bucket_names_.begin(), known));
    buckets_.push_back({WeakTensor(tensor.getIntrusivePtr()), bytes_of(tensor), number});
  }
}

std::optional<size_t> GradientTexts::bucket_around(core::Address address) const {
  for (const Place& bucket : buckets_) {
    const bool is_around = bucket.bytes.begin <= address && address < bucket.bytes.end;
    if (is_around && !bucket.tensor.expired()) return bucket.name;
  }
  return std::nullopt;
}

void GradientTexts::learn(const at::Tensor& parameter, const std::optional<at::Tensor>& gradient,
                          const std::string& text) {
  const std::optional<size_t> bucket = bucket_around(bytes_of_gradient(parameter, gradient).begin);
  if (!bucket) return;
  const c10::TensorImpl* key = parameter.unsafeGetTensorImpl();
  auto& by_bucket = texts_.try_emplace(key, Texts{WeakTensor(parameter.getIntrusivePtr()), {}})
                        .first->second.by_bucket;
  const auto known = std::find_if(by_bucket.begin(), by_bucket.end(),
                                  [&](const auto& entry) { return entry.first == *bucket; });
  if (known == by_bucket.end()) {
    by_bucket.emplace_back(*bucket, text);
  } else {
    known->second = text;
  }
}

bool GradientTexts::name(const at::Tensor& parameter, const std::optional<at::Tensor>& gradient,
                         uint64_t since) const {
  const core::ByteRange bytes = bytes_of_gradient(parameter, gradient);
  if (bytes.is_empty()) return true;
  const auto known = texts_.find(parameter.unsafeGetTensorImpl());
  if (known == texts_.end()) return false;
  const std::optional<size_t> bucket = bucket_around(bytes.begin);
  if (!bucket) return false;
  for (const auto& [where, text] : known->second.by_bucket) {
    if (where != *bucket) continue;
    Detector::Access(Detector::get())->name_bytes(bytes, text, core::OpId{since});
    return true;
  }
  return false;
}

}  // namespace streamguard::hooks
