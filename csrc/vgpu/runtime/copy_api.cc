// cudaMemcpy* and cudaMemset*: which copies wait for what.
#include <cstring>

#include "api_log.h"
#include "export.h"
#include "runtime.h"
#include "traced_call.h"

namespace streamguard::vgpu {

// While positive, device-to-device copies and fills of this thread are empty ops: a host twin
// computes the values.
thread_local int suppressed_copies = 0;

}  // namespace streamguard::vgpu

using namespace streamguard::vgpu;

namespace {

enum class Blocking { kAsync, kSync };

void stage(CopyRows& copy) {
  auto staging = std::make_shared<std::vector<char>>(copy.width * copy.rows);
  const auto* source = static_cast<const char*>(copy.source);
  for (size_t row = 0; row < copy.rows; ++row) {
    std::memcpy(staging->data() + row * copy.width, source + row * copy.source_pitch, copy.width);
  }
  copy.source = staging->data();
  copy.source_pitch = copy.width;
  copy.staging = std::move(staging);
}

// Source: CUDA runtime API reference, "API synchronization behavior".
cudaError_t copy_on(Lock& lock, Stream& stream, CopyRows copy, Blocking blocking) {
  runtime().streams.note_use(stream);
  const MemoryKind source = runtime().memory.kind_of(copy.source);
  const MemoryKind target = runtime().memory.kind_of(copy.target);
  if (log_enabled()) {
    log_line("copy stream=%d target=%p source=%p bytes=%zu", stream.index, copy.target, copy.source,
             copy.width * copy.rows);
  }
  if (copy.width == 0 || copy.rows == 0) return cudaSuccess;
  const bool pageable_source = source == MemoryKind::kPageable;
  const bool device_to_device = !is_host(source) && !is_host(target);
  const bool host_to_host = is_host(source) && is_host(target);
  if (blocking == Blocking::kSync) {
    if (stream.is_capturing()) {
      stream.capture.graph->is_invalidated = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    if (const cudaError_t refusal = refuse_unsafe_call(lock); refusal != cudaSuccess) {
      return refusal;
    }
    // Before the host buffer is staged, earlier work of the stream must be done.
    if (pageable_source) runtime().executor.force(lock, runtime().executor.tail_marks(stream));
  }

  if (device_to_device && suppressed_copies > 0) {
    return enqueue(lock, stream, cudaGraphNodeTypeMemcpy, std::monostate{});
  }
  // Pageable memory is read before the call returns; the write to the device still has to run.
  if (pageable_source && !host_to_host && !stream.is_capturing()) stage(copy);
  Mark issued;
  const cudaError_t error =
      enqueue(lock, stream, cudaGraphNodeTypeMemcpy, std::move(copy), {}, &issued);
  if (error != cudaSuccess || stream.is_capturing()) return error;
  const bool waits_always = host_to_host || target == MemoryKind::kPageable;
  const bool waits_when_sync = !device_to_device && !pageable_source;
  if (waits_always || (blocking == Blocking::kSync && waits_when_sync)) {
    return force_all(lock, {issued});
  }
  return cudaSuccess;
}

cudaError_t fill_on(Lock& lock, Stream& stream, const FillRows& fill, Blocking blocking) {
  runtime().streams.note_use(stream);
  if (log_enabled()) {
    log_line("fill stream=%d target=%p bytes=%zu", stream.index, fill.target,
             fill.width * fill.rows);
  }
  const MemoryKind target = runtime().memory.kind_of(fill.target);
  if (target == MemoryKind::kPageable && fill.width != 0) return cudaErrorInvalidValue;
  if (suppressed_copies > 0 && !is_host(target)) {
    return enqueue(lock, stream, cudaGraphNodeTypeMemset, std::monostate{});
  }
  Mark issued;
  const cudaError_t error = enqueue(lock, stream, cudaGraphNodeTypeMemset, fill, {}, &issued);
  if (error != cudaSuccess || stream.is_capturing()) return error;
  // A fill of device memory does not block the host, whatever the call's name.
  return blocking == Blocking::kSync && is_host(target) ? force_all(lock, {issued}) : cudaSuccess;
}

cudaError_t copy_call(cudaStream_t stream, const CopyRows& copy, Blocking blocking) {
  return with_stream(stream, [&](Lock& lock, Stream& resolved) {
    return copy_on(lock, resolved, copy, blocking);
  });
}

cudaError_t fill_call(cudaStream_t stream, const FillRows& fill, Blocking blocking) {
  return with_stream(stream, [&](Lock& lock, Stream& resolved) {
    return fill_on(lock, resolved, fill, blocking);
  });
}

CopyRows plain_copy(void* target, const void* source, size_t bytes) {
  CopyRows copy;
  copy.target = target;
  copy.source = source;
  copy.width = bytes;
  return copy;
}

CopyRows pitched_copy(void* target, size_t target_pitch, const void* source, size_t source_pitch,
                      size_t width, size_t rows) {
  CopyRows copy = plain_copy(target, source, width);
  copy.rows = rows;
  copy.target_pitch = target_pitch;
  copy.source_pitch = source_pitch;
  return copy;
}

}  // namespace

VGPU_API cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes,
                                cudaMemcpyKind kind) {
  return traced(
      {31, "cudaMemcpy"},
      [&] {
        return copy_call(cudaStreamLegacy, plain_copy(target, source, bytes), Blocking::kSync);
      },
      target, source, bytes, kind);
}

VGPU_API cudaError_t cudaMemcpy_ptds(void* target, const void* source, size_t bytes,
                                     cudaMemcpyKind) {
  return copy_call(cudaStreamPerThread, plain_copy(target, source, bytes), Blocking::kSync);
}

VGPU_API cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes,
                                     cudaMemcpyKind kind, cudaStream_t stream) {
  return traced(
      {41, "cudaMemcpyAsync"},
      [&] { return copy_call(stream, plain_copy(target, source, bytes), Blocking::kAsync); },
      target, source, bytes, kind, stream);
}

VGPU_API cudaError_t cudaMemcpy2D(void* target, size_t target_pitch, const void* source,
                                  size_t source_pitch, size_t width, size_t rows,
                                  cudaMemcpyKind kind) {
  return traced(
      {32, "cudaMemcpy2D"},
      [&] {
        return copy_call(cudaStreamLegacy,
                         pitched_copy(target, target_pitch, source, source_pitch, width, rows),
                         Blocking::kSync);
      },
      target, target_pitch, source, source_pitch, width, rows, kind);
}

VGPU_API cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source,
                                       size_t source_pitch, size_t width, size_t rows,
                                       cudaMemcpyKind kind, cudaStream_t stream) {
  return traced(
      {44, "cudaMemcpy2DAsync"},
      [&] {
        return copy_call(stream,
                         pitched_copy(target, target_pitch, source, source_pitch, width, rows),
                         Blocking::kAsync);
      },
      target, target_pitch, source, source_pitch, width, rows, kind, stream);
}

VGPU_API cudaError_t cudaMemcpyPeer(void* target, int target_device, const void* source,
                                    int source_device, size_t bytes) {
  return traced(
      {160, "cudaMemcpyPeer"},
      [&] {
        if (!is_device(target_device) || !is_device(source_device)) {
          return fail(cudaErrorInvalidDevice);
        }
        return copy_call(cudaStreamLegacy, plain_copy(target, source, bytes), Blocking::kSync);
      },
      target, target_device, source, source_device, bytes);
}

VGPU_API cudaError_t cudaMemcpyPeerAsync(void* target, int target_device, const void* source,
                                         int source_device, size_t bytes, cudaStream_t stream) {
  return traced(
      {161, "cudaMemcpyPeerAsync"},
      [&] {
        if (!is_device(target_device) || !is_device(source_device)) {
          return fail(cudaErrorInvalidDevice);
        }
        return copy_call(stream, plain_copy(target, source, bytes), Blocking::kAsync);
      },
      target, target_device, source, source_device, bytes, stream);
}

VGPU_API cudaError_t cudaMemset(void* target, int value, size_t bytes) {
  return traced(
      {49, "cudaMemset"},
      [&] {
        return fill_call(cudaStreamLegacy,
                         {target, bytes, 1, bytes, static_cast<unsigned char>(value), 1},
                         Blocking::kSync);
      },
      target, value, bytes);
}

VGPU_API cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t stream) {
  return traced(
      {51, "cudaMemsetAsync"},
      [&] {
        return fill_call(stream, {target, bytes, 1, bytes, static_cast<unsigned char>(value), 1},
                         Blocking::kAsync);
      },
      target, value, bytes, stream);
}

VGPU_API cudaError_t cudaMemset2DAsync(void* target, size_t pitch, int value, size_t width,
                                       size_t rows, cudaStream_t stream) {
  return traced(
      {52, "cudaMemset2DAsync"},
      [&] {
        return fill_call(stream, {target, width, rows, pitch, static_cast<unsigned char>(value), 1},
                         Blocking::kAsync);
      },
      target, pitch, value, width, rows, stream);
}

// The driver's fills have wider elements; it calls this.
VGPU_API cudaError_t streamguard_vgpu_fill(void* target, unsigned value, int element_bytes,
                                           size_t elements, cudaStream_t stream) {
  return fill_call(stream, {target, elements, 1, 0, value, element_bytes}, Blocking::kAsync);
}
