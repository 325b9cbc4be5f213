#include "work.h"

#include <chrono>
#include <cstring>

namespace streamguard::vgpu {
namespace {

void copy_rows(const CopyRows& copy) {
  auto* target = static_cast<char*>(copy.target);
  const auto* source = static_cast<const char*>(copy.source);
  for (size_t row = 0; row < copy.rows; ++row) {
    // CUDA leaves overlapping copies undefined; memmove keeps them deterministic.
    std::memmove(target + row * copy.target_pitch, source + row * copy.source_pitch, copy.width);
  }
}

void fill_rows(const FillRows& fill) {
  auto* target = static_cast<char*>(fill.target);
  for (size_t row = 0; row < fill.rows; ++row, target += fill.pitch) {
    if (fill.element_bytes == 1) {
      std::memset(target, static_cast<int>(fill.value), fill.width);
      continue;
    }
    const auto element = static_cast<size_t>(fill.element_bytes);
    for (size_t i = 0; i < fill.width; ++i) std::memcpy(target + i * element, &fill.value, element);
  }
}

struct Performer {
  Outcome operator()(std::monostate&) const { return Outcome::kDone; }
  Outcome operator()(CopyRows& copy) const {
    copy_rows(copy);
    return Outcome::kDone;
  }
  Outcome operator()(FillRows& fill) const {
    fill_rows(fill);
    return Outcome::kDone;
  }
  Outcome operator()(HostCall& call) const {
    call.function(call.argument);
    return Outcome::kDone;
  }
  Outcome operator()(CompleteRecord& complete) const {
    complete.record->completed_ms = now_ms();
    return Outcome::kDone;
  }
  Outcome operator()(std::shared_ptr<Step>& step) const { return step->run(); }
};

}  // namespace

bool is_instant(const Work& work) {
  return std::holds_alternative<std::monostate>(work) ||
         std::holds_alternative<CompleteRecord>(work);
}

Outcome perform(Work& work) { return std::visit(Performer{}, work); }

double now_ms() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(since_start).count();
}

}  // namespace streamguard::vgpu
