#pragma once

#include <pybind11/pybind11.h>

namespace streamguard::hooks {

// What the detector knows, as plain Python objects; streamguard/_hooks.pyi describes their fields.
// Names, stream roles and source lines are looked up now, so that a name given shortly after an
// access is found. REQUIRES of all: the GIL is held and the detector's mutex is not.

/// Throws: pybind11::index_error when there is no such finding.
pybind11::dict finding_as_dict(int id);
pybind11::list findings_as_list();
pybind11::list watched_as_list();
pybind11::list early_frees_as_list();
pybind11::dict counters_as_dict();

}  // namespace streamguard::hooks
