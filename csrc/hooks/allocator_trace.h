#pragma once

namespace streamguard::hooks {

/// Lets the caching allocator tell us of every block and segment.
///
/// The tracker cannot be detached: an inactive detector ignores it. A second call does nothing.
/// REQUIRES: CUDA is initialised; before, torch would attach the tracker to nothing.
void attach_allocator_trace();

/// Whether the tracker is attached, so CUDA was initialised.
bool is_allocator_traced();

}  // namespace streamguard::hooks
