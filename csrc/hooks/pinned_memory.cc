#include "hooks/pinned_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>

#include "hooks/thread_state.h"

namespace streamguard::hooks {
namespace {

core::ByteRange bytes_of(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  const auto begin = reinterpret_cast<uint64_t>(storage.data());
  return {begin, begin + storage.nbytes()};
}

bool is_pinned_address(uint64_t address) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, reinterpret_cast<const void*>(address)) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeHost;
}

}  // namespace

PinnedMemory& PinnedMemory::get() {
  static PinnedMemory& memory = *std::make_unique<PinnedMemory>().release();
  return memory;
}

bool PinnedMemory::is_same(const Block& block, const at::Tensor& tensor) {
  return block.storage._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl();
}

PinnedMemory::Blocks::iterator PinnedMemory::first_overlapping(uint64_t begin, uint64_t end) {
  auto block = blocks_.upper_bound(begin);
  if (block != blocks_.begin() && std::prev(block)->second.end > begin) --block;
  return block != blocks_.end() && block->first < end ? block : blocks_.end();
}

bool PinnedMemory::note_device_copy(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.numel() == 0) return false;
  const core::ByteRange bytes = bytes_of(tensor);
  const core::HostThreadId thread = this_thread().id;
  {
    const Detector::Access detector(Detector::get());
    const auto block = first_overlapping(bytes.begin, bytes.end);
    if (block != blocks_.end() && is_same(block->second, tensor)) return true;
  }
  if (!is_pinned_address(bytes.begin)) return false;
  const Detector::Access detector(Detector::get());
  register_storage(*detector, tensor, thread);
  return true;
}

bool PinnedMemory::note_host_access(const at::Tensor& tensor) {
  const core::ByteRange bytes = bytes_of(tensor);
  const core::HostThreadId thread = this_thread().id;
  const Detector::Access detector(Detector::get());
  const auto block = first_overlapping(bytes.begin, bytes.end);
  if (block == blocks_.end()) return false;
  if (!is_same(block->second, tensor)) register_storage(*detector, tensor, thread);
  return true;
}

void PinnedMemory::register_storage(detection::DetectorState& state, const at::Tensor& tensor,
                                    core::HostThreadId thread) {
  const core::ByteRange bytes = bytes_of(tensor);
  for (auto block = first_overlapping(bytes.begin, bytes.end); block != blocks_.end();
       block = first_overlapping(bytes.begin, bytes.end)) {
    if (!block->second.storage.expired()) return;  // an alias of a living block
    blocks_.erase(block);
  }
  blocks_.emplace(bytes.begin, Block{bytes.end, tensor.storage().getWeakStorageImpl()});
  state.engine.forget(bytes);
  state.engine.allocate(thread, bytes, core::MemoryKind::kPinned, core::kNoStream);
  begin_.store(std::min(begin_.load(), bytes.begin));
  end_.store(std::max(end_.load(), bytes.end));
}

void PinnedMemory::clear() {
  blocks_.clear();
  begin_.store(UINT64_MAX);
  end_.store(0);
}

}  // namespace streamguard::hooks
