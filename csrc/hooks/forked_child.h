#pragma once

namespace streamguard::hooks {

/// Keeps our locks in order across every fork of this process from now on. Call once.
///
/// The forking thread holds them all while it forks, so that no child inherits one that another
/// thread held. The child watches nothing until `begin_anew_in_child`.
void follow_forks();

/// Watches a forked child with an engine of its own, which knows nothing of the parent.
///
/// REQUIRES: the calling thread is the child's only one, the parent had not initialised CUDA, and
/// the parent was watched.
void begin_anew_in_child();

}  // namespace streamguard::hooks
