#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>

#include "core/ids.h"

namespace streamguard::hooks {

/// The engine's stream for a CUDA handle. Queries the stream's flags at first sight.
///
/// REQUIRES: neither the allocator's lock nor the detector's mutex is held.
/// Cost: a few ns for one of the calling thread's recent streams.
core::StreamId stream_of(c10::DeviceIndex device, uint64_t handle);

core::StreamId stream_of_torch(const c10::Stream& stream);

/// The stream that torch launches on now, on `device`.
core::StreamId current_stream(c10::DeviceIndex device);

/// Lets this thread ask the detector anew for every stream.
void forget_streams_of_this_thread();

/// The calling thread's current CUDA device.
c10::DeviceIndex current_device();

}  // namespace streamguard::hooks
