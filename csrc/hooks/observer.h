#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace streamguard::hooks {

/// Puts an observer in front of every kernel at the CUDA and CPU dispatch keys that touches bytes,
/// and at the keys of CUDA tensors that are made of parts (sparse, nested) or quantized.
///
/// May be called again after more operators were registered: only new ones get an observer. The
/// registrations stay for ever (destroying them would restore kernels under running threads); an
/// inactive detector makes them pass through.
///
/// REQUIRES: no other thread is registering operators or running them for the first time.
/// Returns: how many observers were added.
/// Cost: 0.2 s the first time; afterwards 0.25 us for each kernel call while inactive.
size_t install_observers();

/// Grows with every operator that is registered anywhere in the process.
uint64_t registration_count();

/// Operators whose C++ kernel at the CUDA key was registered after `install_observers`.
std::vector<std::string> unobserved_kernels();

}  // namespace streamguard::hooks
