// Parts of the module streamguard._core. Ids cross as plain integers: Python has no cheap strong
// ids.
#ifndef STREAMGUARD_BINDINGS_BINDINGS_H_
#define STREAMGUARD_BINDINGS_BINDINGS_H_

#include <pybind11/pybind11.h>

namespace streamguard::bindings {

void bind_findings(pybind11::module_& module);
void bind_engine(pybind11::module_& module);
void bind_regions(pybind11::module_& module);
void bind_replay(pybind11::module_& module);

}  // namespace streamguard::bindings

#endif  // STREAMGUARD_BINDINGS_BINDINGS_H_
