#include "hooks/op_site.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/node.h>

#include "hooks/detector.h"
#include "hooks/forward_sites.h"

namespace streamguard::hooks {

core::SiteId capture_site() {
  const StackId stack = Detector::get().stacks().capture();
  StackId forward = 0;
  if (const auto node = torch::autograd::get_current_node()) {
    forward = ForwardSites::find(node->thread_id(), node->sequence_nr());
  } else if (stack != 0) {
    // The autograd layer makes the node right before the kernel starts: the newest number is ours.
    const uint64_t next = at::sequence_number::peek();
    if (next > 0) ForwardSites::note(at::RecordFunction::currentThreadId(), next - 1, stack);
  }
  return core::SiteId{static_cast<uint64_t>(forward) << 32 | stack};
}

}  // namespace streamguard::hooks
