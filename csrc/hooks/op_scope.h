#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>
#include <c10/util/SmallVector.h>

#include "core/engine.h"
#include "hooks/detector.h"
#include "hooks/op_schema.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {

/// One observed op, from before its kernel starts until after it returned to us.
///
/// Collects the op's accesses and places them into the engine when `finish` is called, on the
/// current stream of each tensor's device. What the op does to events meanwhile keeps its place;
/// host waits inside the op take effect after its accesses, since a kernel that waits for its own
/// copy is traced before it has made the copy.
///
/// Thread safety: belongs to its thread; ops inside it are not observed.
/// Invariants: (1) at most one scope per thread; (2) accesses are placed at most once; (3) a kernel
/// that throws leaves no accesses, but its waits and records stand.
class OpScope {
 public:
  OpScope(ThreadState& thread, core::LabelId label);
  virtual ~OpScope();
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

  /// REQUIRES: the caller keeps what `tensor` refers to until `finish`.
  void add_tensor(const at::Tensor& tensor, core::AccessKind kind);
  void add_value(const c10::IValue& value, core::AccessKind kind);
  /// Host memory that the op touches: where the device tensors are, or in a host op.
  void add_host_tensor(const at::Tensor& tensor, core::AccessKind kind);
  /// Reads and writes of the arguments on the stack, as the schema says.
  void add_arguments(const OpSchema& schema, const torch::jit::Stack& stack);
  /// Writes of the results on the stack, unless they are bytes the arguments already stood for.
  void add_results(const OpSchema& schema, const torch::jit::Stack& stack);
  /// The same of one result; `is_written_in_place` as `OpSchema::is_in_place`.
  void add_result(const at::Tensor& tensor, bool is_written_in_place);

  /// A block is freed inside the op: that of an `out` argument which the op makes larger before its
  /// kernel. The kernel touches the new bytes, which the results stand for. Called with the
  /// allocator's lock held.
  void leave_out(const core::ByteRange& freed);

  /// Puts in the waits that the accesses collected so far lack, when waits are enforced; or delays
  /// the op, when races are tried. Call right before the kernel.
  virtual void order_before_start();

  /// Places the accesses, then the host waits. Call once, when the kernel has returned.
  void finish();

  /// The op records `event` on `stream`. Returns: whether the scope will tell the engine later.
  virtual bool on_record(core::EventId event, core::StreamId stream);
  /// The op makes `stream` wait for `event`; the engine is told right after.
  virtual void on_wait(core::EventId event, core::StreamId stream);
  /// The engine was told of that wait.
  virtual void after_wait(core::StreamId stream);

  core::OpInfo info() const { return {label_, site_}; }

  void add_stream_wait(core::StreamId stream) { waits_.push_back({Wait::kStream, stream, {}, {}}); }
  void add_event_wait(core::EventId event) {
    waits_.push_back({Wait::kEvent, core::kNoStream, event, {}});
  }
  void add_device_wait(core::DeviceId device) {
    waits_.push_back({Wait::kDevice, core::kNoStream, {}, device});
  }

 protected:
  virtual void place();
  void place_on(core::StreamId stream);
  void submit(core::StreamId stream, const std::vector<core::Access>& accesses);
  core::OpId count_and_issue(core::StreamId stream, const std::vector<core::Access>& accesses);
  virtual void order_on(core::StreamId stream, const std::vector<core::Access>& accesses);
  virtual core::OpId issue(detection::DetectorState& detector, core::StreamId stream,
                           const std::vector<core::Access>& accesses);
  bool is_placed() const { return is_placed_; }

  ThreadState& thread_;
  core::LabelId label_;
  core::SiteId site_;
  c10::DeviceIndex device_ = -1;  // of the first access

 private:
  struct Wait {
    enum Kind : uint8_t { kStream, kEvent, kDevice } kind;
    core::StreamId stream;
    core::EventId event;
    core::DeviceId device;
  };

  void add_result_value(const c10::IValue& value, bool is_written_in_place);
  void add_result_bytes(const at::Tensor& tensor);
  /// Keeps `value` alive until the accesses are placed, if this stack is its only owner.
  void hold(const c10::IValue& value);
  /// Calls visit(stream, accesses) for each device, with the current stream there.
  template <typename Visit>
  void visit_devices(Visit visit);
  void apply_waits();
  void leave();

  bool is_placed_ = false;
  bool is_left_ = false;
  bool spans_devices_ = false;
  c10::SmallVector<int8_t, 16> devices_;  // of each access
  c10::SmallVector<Wait, 2> waits_;
  c10::SmallVector<c10::IValue, 2> held_;
};

}  // namespace streamguard::hooks
