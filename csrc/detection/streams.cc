#include "detection/streams.h"

#include <cassert>

namespace streamguard::detection {

std::optional<core::StreamId> StreamTable::find(int device, uint64_t handle) const {
  const auto known = ids_.find({device, handle});
  if (known == ids_.end()) return std::nullopt;
  return known->second;
}

core::StreamId StreamTable::find_or_add(int device, uint64_t handle, core::StreamKind kind) {
  if (const auto known = find(device, handle)) return *known;
  const core::StreamId id = engine_.add_stream(core::DeviceId{device}, kind, handle);
  assert(id.value == streams_.size());
  streams_.push_back({device, handle, kind, {}, 0});
  ids_.emplace(Key{device, handle}, id);
  if (const auto role = roles_of_unseen_.extract(Key{device, handle})) {
    streams_.back().role = role.mapped();
  }
  return id;
}

void StreamTable::set_role(int device, uint64_t handle, const std::string& role) {
  record_name(device, handle, role);
  if (const auto known = find(device, handle)) {
    get(*known).role = role;
  } else {
    roles_of_unseen_[{device, handle}] = role;
  }
}

void StreamTable::set_role_if_unnamed(core::StreamId stream, const std::string& role) {
  Stream& named = get(stream);
  if (!named.role.empty()) return;
  named.role = role;
  record_name(named.device, named.handle, role);
}

void StreamTable::record_name(int device, uint64_t handle, const std::string& role) {
  trace::Recorder* recorder = engine_.recorder();
  if (recorder == nullptr) return;
  trace::Row row;
  row.verb = trace::Verb::kNameStream;
  row.device = device;
  row.id = handle;
  recorder->add_text(row, role);
}

std::string StreamTable::name(core::StreamId stream) const {
  const Stream& info = get(stream);
  if (!info.role.empty()) return info.role;
  const std::string device = " (device " + std::to_string(info.device) + ")";
  if (info.kind == core::StreamKind::kLegacy) return "default stream" + device;
  return "stream " + std::to_string(stream.value) + device;
}

}  // namespace streamguard::detection
