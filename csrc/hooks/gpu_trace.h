#pragma once

namespace streamguard::hooks {

/// Puts our sink into c10's GPUTrace slot and forwards to the one that was there.
///
/// May be called again after `uninstall_gpu_trace`. REQUIRES: the GIL is held.
void install_gpu_trace();

/// Puts back the very sink that was replaced. If somebody installed another one above ours
/// meanwhile, ours stays beneath it and only forwards.
void uninstall_gpu_trace();

}  // namespace streamguard::hooks
