#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>

#include "detection/finding_facts.h"

namespace streamguard::detection {

/// The frames of one interned stack, innermost first, as (file, line, function); 0 has none.
using FramesOf = std::function<pybind11::list(std::uint32_t)>;

// Facts as plain Python objects; streamguard/report/decode.py describes their fields. REQUIRES of
// both: the GIL is held and the detector's mutex is not.
pybind11::dict finding_dict(const FindingFacts& facts, const FramesOf& frames_of);
pybind11::dict watched_dict(const WatchedFacts& facts, const FramesOf& frames_of);

}  // namespace streamguard::detection
