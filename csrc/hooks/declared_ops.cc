// Operators through which Python declares what a kernel of its own touches.
#include <torch/library.h>

#include <optional>

#include "hooks/current_stream.h"
#include "hooks/detector.h"
#include "hooks/op_scope.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {
namespace {

/// An op on a stream that its caller names, or on the current one.
class DeclaredScope final : public OpScope {
 public:
  DeclaredScope(ThreadState& thread, core::LabelId label, std::optional<uint64_t> stream_handle)
      : OpScope(thread, label), stream_handle_(stream_handle) {}

 protected:
  void place() override {
    if (stream_handle_ && device_ >= 0) {
      place_on(stream_of(device_, *stream_handle_));
    } else {
      OpScope::place();
    }
  }

 private:
  std::optional<uint64_t> stream_handle_;
};

void declare(const std::string& name, at::TensorList reads, at::TensorList writes,
             std::optional<int64_t> stream_handle) {
  Detector& detector = Detector::get();
  ThreadState& thread = this_thread();
  if (!detector.is_active() || thread.scope != nullptr) return;
  const core::LabelId label = Detector::Access(detector)->labels.intern_op(name);
  DeclaredScope scope(thread, label, stream_handle);
  for (const at::Tensor& tensor : reads) scope.add_value(tensor, core::AccessKind::kRead);
  for (const at::Tensor& tensor : writes) scope.add_value(tensor, core::AccessKind::kWrite);
  scope.finish();
}

TORCH_LIBRARY_FRAGMENT(streamguard, library) {
  library.def("declare(str name, Tensor[] reads, Tensor[] writes, int? stream) -> ()", &declare);
}

}  // namespace
}  // namespace streamguard::hooks
