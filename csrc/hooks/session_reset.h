#pragma once

namespace streamguard::hooks {

/// Forgets all earlier accesses and blocks: what happened since they were seen was not watched.
void forget_everything();

}  // namespace streamguard::hooks
