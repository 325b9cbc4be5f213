#pragma once

#include <cstdint>

namespace streamguard::hooks {

// Copies and fills that no operator made: of an extension, or of torch outside its operators. Their
// addresses are in the call, so they are ops of their own. `stream` is the handle; 0 is the default
// stream of the current device. REQUIRES: no lock of ours is held.

void note_raw_copy(uint64_t target, uint64_t source, uint64_t bytes, uint64_t stream,
                   bool is_blocking);
void note_raw_fill(uint64_t target, uint64_t bytes, uint64_t stream);

}  // namespace streamguard::hooks
