#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/version.h>

#include "coverage.h"
#include "error_slot.h"
#include "installation.h"
#include "override_kernel.h"

namespace py = pybind11;
using namespace streamguard::values;

PYBIND11_MODULE(_values, module) {
  module.doc() = "Computes the results of device ops on the virtual GPU.";
  module.attr("built_for_torch") = TORCH_VERSION;
  module.def("install", &install);
  module.def("set_active", &set_active);
  module.def("take_error", [] { return ErrorSlot::instance().take(); });
  module.def("counts", [] {
    const Coverage& coverage = Coverage::instance();
    return std::map<std::string, std::uint64_t>{{"twins", coverage.twins.load()},
                                                {"at_issue", coverage.at_issue.load()},
                                                {"dry_runs", coverage.dry_runs.load()}};
  });
  module.def("not_computed", [] { return Coverage::instance().not_computed(); });
  module.def("installed_ops", [] {
    std::vector<std::tuple<std::string, std::string, bool>> ops;
    for (const InstalledOp& op : installed_ops()) {
      ops.emplace_back(op.name, to_string(op.treatment), op.has_substitute);
    }
    return ops;
  });
}
