#include "hooks/op_scope.h"

#include <algorithm>

#include "hooks/announcer.h"
#include "hooks/confirmer.h"
#include "hooks/current_stream.h"
#include "hooks/enforcer.h"
#include "hooks/op_site.h"
#include "hooks/regions.h"
#include "hooks/sampling.h"
#include "hooks/tensor_parts.h"

namespace streamguard::hooks {
namespace {

// Above this, results are not looked up among the arguments: only list ops have as many, and those
// return fresh tensors. A result listed twice would still count as one write.
constexpr size_t kMaxComparedAccesses = 64;

}  // namespace

OpScope::OpScope(ThreadState& thread, core::LabelId label)
    : thread_(thread), label_(label), site_(capture_site()) {
  thread_.scope = this;
  thread_.freed_just_now = 0;
  ++thread_.observed_ops;
  thread_.accesses.clear();
}

OpScope::~OpScope() {
  // Only after an exception: `finish` was not reached.
  leave();
}

void OpScope::add_tensor(const at::Tensor& tensor, core::AccessKind kind) {
  if (!tensor.defined() || !tensor.is_cuda()) return;
  if (is_made_of_parts(tensor)) {
    const TensorParts parts = parts_of(tensor);
    // An op that changes a sparse tensor in place may put new parts in the place of the old ones:
    // those are read then, and must not be freed before their access is placed.
    held_.append(parts.indices.begin(), parts.indices.end());
    held_.append(parts.values.begin(), parts.values.end());
    const bool is_nested = parts.indices.empty();
    for (const at::Tensor& part : parts.indices) add_tensor(part, core::AccessKind::kRead);
    for (const at::Tensor& part : parts.values) {
      add_tensor(part, is_nested ? kind : core::AccessKind::kRead);
    }
    return;
  }
  const size_t before = thread_.accesses.size();
  if (!append_regions(tensor, kind, thread_.accesses)) {
    ++Detector::Access(Detector::get())->counters.truncated_tensors;
  }
  if (thread_.accesses.size() == before) return;
  const c10::DeviceIndex device = tensor.device().index();
  if (device_ < 0) device_ = device;
  if (device != device_) spans_devices_ = true;
  devices_.resize(thread_.accesses.size(), device);
}

void OpScope::add_value(const c10::IValue& value, core::AccessKind kind) {
  if (value.isTensor()) {
    add_tensor(value.toTensor(), kind);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) add_value(element, kind);
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) add_value(element, kind);
  }
}

void OpScope::add_host_tensor(const at::Tensor& tensor, core::AccessKind kind) {
  if (!append_regions(tensor, kind, thread_.accesses)) {
    ++Detector::Access(Detector::get())->counters.truncated_tensors;
  }
  devices_.resize(thread_.accesses.size(), device_);
}

void OpScope::hold(const c10::IValue& value) {
  if (value.isTensor() ? value.toTensor().use_count() == 1 : value.isList()) held_.push_back(value);
}

void OpScope::add_arguments(const OpSchema& schema, const torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, schema.arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (schema.arguments[i] == ArgumentUse::kNone) continue;
    const bool is_written = schema.arguments[i] == ArgumentUse::kWrite;
    add_value(arguments[i], is_written ? core::AccessKind::kWrite : core::AccessKind::kRead);
    // The kernel drops the stack's references before it returns to us. Bytes that are freed before
    // their access is placed would look like a use after free.
    hold(arguments[i]);
  }
}

void OpScope::add_result_value(const c10::IValue& value, bool is_written_in_place) {
  if (value.isTensor()) {
    add_result(value.toTensor(), is_written_in_place);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      add_result_value(element, is_written_in_place);
    }
  }
}

void OpScope::add_result(const at::Tensor& tensor, bool is_written_in_place) {
  if (is_placed_) return;
  // An in-place op returns what it was given, and some kernels hand an input through without saying
  // so in their schema: those bytes stand in the list already, as what the op really did.
  if (!tensor.defined() || !is_made_of_parts(tensor)) {
    add_result_bytes(tensor);
    return;
  }
  const TensorParts parts = parts_of(tensor);
  for (const at::Tensor& part : parts.indices) add_result_bytes(part);
  for (const at::Tensor& part : parts.values) {
    if (is_written_in_place && !parts.indices.empty()) {
      add_tensor(part, core::AccessKind::kWrite);
    } else {
      add_result_bytes(part);
    }
  }
}

void OpScope::add_result_bytes(const at::Tensor& tensor) {
  const size_t before = thread_.accesses.size();
  add_tensor(tensor, core::AccessKind::kWrite);
  if (before > kMaxComparedAccesses) return;
  for (size_t added = before; added < thread_.accesses.size(); ++added) {
    const core::Region& region = thread_.accesses[added].region;
    const bool is_known = std::any_of(
        thread_.accesses.begin(), thread_.accesses.begin() + static_cast<std::ptrdiff_t>(before),
        [&](const core::Access& access) { return access.region == region; });
    if (!is_known) return;
  }
  thread_.accesses.resize(before);
  devices_.resize(before);
}

void OpScope::add_results(const OpSchema& schema, const torch::jit::Stack& stack) {
  if (is_placed_) return;
  const auto results = torch::jit::last(stack, schema.returns.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (schema.returns[i] == ArgumentUse::kWrite) {
      add_result_value(results[i], schema.is_in_place);
    }
  }
}

void OpScope::leave_out(const core::ByteRange& freed) {
  if (is_placed_) return;
  for (size_t i = thread_.accesses.size(); i-- > 0;) {
    const core::Address begin = thread_.accesses[i].region.begin;
    if (begin < freed.begin || freed.end <= begin) continue;
    thread_.accesses.erase(thread_.accesses.begin() + static_cast<std::ptrdiff_t>(i));
    devices_.erase(devices_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void OpScope::finish() {
  if (!is_placed_) place();
  apply_waits();
  leave();
  announce_news();
}

bool OpScope::on_record(core::EventId, core::StreamId) { return false; }

void OpScope::on_wait(core::EventId, core::StreamId) {}

void OpScope::after_wait(core::StreamId) {}

template <typename Visit>
void OpScope::visit_devices(Visit visit) {
  if (thread_.accesses.empty()) return;
  if (!spans_devices_) {
    visit(current_stream(device_), thread_.accesses);
    return;
  }
  for (int8_t device = 0; device < c10::DeviceIndex{127}; ++device) {
    thread_.accesses_of_device.clear();
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i] == device) thread_.accesses_of_device.push_back(thread_.accesses[i]);
    }
    if (!thread_.accesses_of_device.empty()) {
      visit(current_stream(device), thread_.accesses_of_device);
    }
  }
}

void OpScope::order_before_start() {
  if (!Enforcer::get().is_active() && !Confirmer::get().is_active()) return;
  visit_devices([this](core::StreamId stream, const std::vector<core::Access>& accesses) {
    order_on(stream, accesses);
  });
}

void OpScope::order_on(core::StreamId stream, const std::vector<core::Access>& accesses) {
  if (Enforcer::get().is_active()) {
    Enforcer::get().order_launch(thread_, stream, accesses, info());
  }
  if (Confirmer::get().is_active()) {
    Confirmer::get().before_launch(thread_, stream, accesses, info());
  }
}

void OpScope::place() {
  if (thread_.accesses.empty()) return;
  is_placed_ = true;
  visit_devices([this](core::StreamId stream, const std::vector<core::Access>& accesses) {
    submit(stream, accesses);
  });
}

void OpScope::place_on(core::StreamId stream) {
  is_placed_ = true;
  if (!thread_.accesses.empty()) submit(stream, thread_.accesses);
}

void OpScope::submit(core::StreamId stream, const std::vector<core::Access>& accesses) {
  const core::OpId op = count_and_issue(stream, accesses);
  if (op != core::kNoOp && Confirmer::get().is_active()) {
    Confirmer::get().after_issue(thread_, stream, accesses, op);
  }
}

core::OpId OpScope::count_and_issue(core::StreamId stream,
                                    const std::vector<core::Access>& accesses) {
  const Detector::Access detector(Detector::get());
  if (!detector->labels.get(label_).op.starts_with("c10d::") &&
      !Sampling::get().wants(*detector, stream)) {
    return core::kNoOp;
  }
  const core::OpId op = issue(*detector, stream, accesses);
  // Nothing runs while a graph is captured; its replays count.
  if (stream != core::kNoStream) {
    if (detector->engine.is_capturing(stream)) return core::kNoOp;
    ++detector->streams.get(stream).ops;
  }
  ++detector->counters.ops;
  detector->counters.accesses += accesses.size();
  return op;
}

core::OpId OpScope::issue(detection::DetectorState& detector, core::StreamId stream,
                          const std::vector<core::Access>& accesses) {
  core::LabelId label = label_;
  if (detector.engine.is_capturing(stream)) {
    label = detector.labels.intern(detector.labels.get(label_).in_graph());
  }
  return detector.engine.launch(thread_.id, stream, accesses, {label, site_});
}

void OpScope::apply_waits() {
  if (waits_.empty()) return;
  const Detector::Access detector(Detector::get());
  for (const Wait& wait : waits_) {
    switch (wait.kind) {
      case Wait::kStream:
        detector->engine.sync_stream(thread_.id, wait.stream);
        break;
      case Wait::kEvent:
        detector->engine.sync_event(thread_.id, wait.event);
        break;
      case Wait::kDevice:
        detector->engine.sync_device(thread_.id, wait.device);
        break;
    }
  }
  waits_.clear();
}

void OpScope::leave() {
  if (is_left_) return;
  is_left_ = true;
  apply_waits();
  thread_.scope = nullptr;
}

}  // namespace streamguard::hooks
