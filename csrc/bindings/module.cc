#include "bindings/bindings.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The happens-before engine.";
  streamguard::bindings::bind_findings(module);
  streamguard::bindings::bind_regions(module);
  streamguard::bindings::bind_engine(module);
  streamguard::bindings::bind_replay(module);
}
