#pragma once

#include "core/ids.h"

namespace streamguard::hooks {

/// Where the calling thread is: its own Python stack in the low half, and in the high half the
/// stack of the forward op whose autograd node runs.
///
/// REQUIRES: a kernel has just started, and no lock of ours is held.
core::SiteId capture_site();

}  // namespace streamguard::hooks
