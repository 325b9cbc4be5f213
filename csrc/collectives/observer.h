#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/ring.h"
#include "hooks/sites.h"

namespace streamguard::collectives {

/// What Python is told and asked; called with the GIL, never with a lock of ours held.
struct Callbacks {
  /// A group was used for the first time: its number, name, description, own rank and size.
  std::function<void(uint32_t, const std::string&, const std::string&, int, int)> on_group;
  /// A Python stack was seen for the first time: its number.
  std::function<void(uint32_t)> on_site;
  /// Before a collective, in the strict mode only: the text to raise, or "" to go on.
  std::function<std::string(const Record&)> before;
};

/// Registers observers of the c10d ops, once per process; they do nothing until `start`.
///
/// They sit at BackendSelect: above the kernels of every backend, so that CPU, CUDA and other
/// devices are seen alike, and whatever else watches those kernels is not disturbed.
int install();

void start(const std::string& ring_path, uint64_t capacity, int stack_depth, bool is_timed,
           Callbacks callbacks);
void stop();

/// Asks `before` ahead of every collective from now on, or no longer.
void set_strict(bool is_strict);

/// Ends all groups: one that is made at the same address later is another group.
void forget_groups();

void set_step(uint32_t step);

/// Stores from when to when the work of a call ran, for backends that time it themselves.
void set_times(uint64_t position, uint64_t start_ns, uint64_t end_ns);

hooks::StackTable& stacks();

}  // namespace streamguard::collectives
