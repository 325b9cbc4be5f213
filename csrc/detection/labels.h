#pragma once

#include <deque>
#include <map>
#include <string>
#include <tuple>

#include "core/ids.h"

namespace streamguard::detection {

/// What a label stands for: an operator, and for a collective how it was issued.
struct Label {
  std::string op;  // "aten::add_"
  bool is_collective = false;
  bool is_async = false;  // ran on a communication stream of its own
  std::string group;

  /// Of an op that a capture stored, so that a person knows why its lines ran long before.
  Label in_graph() const { return {op + " in CUDA graph", is_collective, is_async, group}; }
};

/// Interns labels, so that an op carries four bytes.
///
/// Thread safety: none; the detector's mutex serialises all calls.
/// Invariant: an id never changes its meaning.
class LabelTable {
 public:
  core::LabelId intern_op(const std::string& op) { return intern({op, false, false, {}}); }
  core::LabelId intern(const Label& label) {
    const auto key = std::make_tuple(label.op, label.is_collective, label.is_async, label.group);
    const auto next = core::LabelId{static_cast<uint32_t>(labels_.size())};
    const auto [position, is_new] = ids_.emplace(key, next);
    if (is_new) labels_.push_back(label);
    return position->second;
  }
  const Label& get(core::LabelId id) const { return labels_[id.value]; }
  size_t size() const { return labels_.size(); }

 private:
  std::map<std::tuple<std::string, bool, bool, std::string>, core::LabelId> ids_;
  std::deque<Label> labels_;
};

}  // namespace streamguard::detection
