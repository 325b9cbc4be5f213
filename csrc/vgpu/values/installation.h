#pragma once

#include <string>
#include <vector>

#include "op_profile.h"

namespace streamguard::values {

// One operator with a kernel on the device.
struct InstalledOp {
  std::string name;
  Treatment treatment;
  bool has_substitute;  // a CPU kernel of ours
};

// Registers an override for every operator that has a kernel on the device. Once in a process: the
// dispatcher cannot give the previous kernels back while other threads may be inside them. Later
// calls do nothing.
//
// Throws when the process does not run on the virtual GPU.
void install();

// Operators found at `install`, by name.
const std::vector<InstalledOp>& installed_ops();

}  // namespace streamguard::values
