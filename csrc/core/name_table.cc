#include "core/name_table.h"

#include <algorithm>

namespace streamguard::core {

NameTable::NameId NameTable::Names::add(ByteRange whole, std::string_view text) {
  NameId name = static_cast<NameId>(names_.size());
  if (unused_.empty()) {
    names_.emplace_back();
    uses_.push_back(0);
  } else {
    name = unused_.back();
    unused_.pop_back();
  }
  names_[name].whole = whole;
  names_[name].text.assign(text);
  return name;
}

void NameTable::Names::drop(NameId name) {
  if (--uses_[name] == 0) unused_.push_back(name);
}

void NameTable::Versions::push(const Version& version) {
  newest_ = static_cast<std::uint8_t>((newest_ + 1u) % kVersionsPerByte);
  ring_[newest_] = version;
  if (!is_full()) ++size_;
}

const NameTable::Version* NameTable::Versions::find(OpId at, AllocationId block) const {
  const Version* found = nullptr;
  for (std::size_t age = 0; age < size_; ++age) {
    const Version& version = (*this)[age];
    if (version.block != block) continue;
    if (!(at < version.since)) return &version;
    if (version.is_first) found = &version;
  }
  return found;
}

void NameTable::push(Entry& entry, OpId since, AllocationId block, NameId name) {
  Versions& versions = entry.versions;
  const bool is_first = versions.size() == 0 || versions[0].block != block;
  names_.keep(name);
  if (versions.is_full()) names_.drop(versions[kVersionsPerByte - 1].name);
  versions.push({since, block, name, is_first});
}

void NameTable::split_at(Address address) {
  auto after = entries_.upper_bound(address);
  if (after == entries_.begin()) return;
  auto before = std::prev(after);
  if (before->first == address || before->second.end <= address) return;
  const Versions& both = before->second.versions;
  for (std::size_t age = 0; age < both.size(); ++age) names_.keep(both[age].name);
  entries_.emplace_hint(after, address, before->second);
  before->second.end = address;
}

void NameTable::add(ByteRange range, std::string_view text, OpId since, AllocationId block) {
  if (range.is_empty()) return;
  split_at(range.begin);
  split_at(range.end);
  const NameId name = names_.add(range, text);
  names_.keep(name);
  auto at = entries_.lower_bound(range.begin);
  for (Address begin = range.begin; begin < range.end;) {
    if (at == entries_.end() || at->first > begin) {
      const Address end = at == entries_.end() ? range.end : std::min(range.end, at->first);
      at = entries_.emplace_hint(at, begin, Entry{end, {}});
    }
    const Versions& versions = at->second.versions;
    const bool is_same = versions.size() != 0 && versions[0].block == block &&
                         names_[versions[0].name].whole == range &&
                         names_[versions[0].name].text == text;
    if (!is_same) push(at->second, since, block, name);
    begin = at->second.end;
    ++at;
  }
  names_.drop(name);
}

std::vector<NameTable::Named> NameTable::lookup(ByteRange range, OpId at_op,
                                                AllocationId block) const {
  std::vector<Named> names;
  if (range.is_empty()) return names;
  auto at = entries_.upper_bound(range.begin);
  if (at != entries_.begin()) --at;
  for (; at != entries_.end() && at->first < range.end; ++at) {
    const ByteRange part{std::max(at->first, range.begin), std::min(at->second.end, range.end)};
    if (part.is_empty()) continue;
    const Version* version = at->second.versions.find(at_op, block);
    if (version == nullptr) continue;
    const Names::Name& name = names_[version->name];
    if (!names.empty() && names.back().range.end == part.begin &&
        names.back().whole == name.whole && names.back().text == name.text) {
      names.back().range.end = part.end;
      continue;
    }
    names.push_back({part, name.whole, name.text});
  }
  return names;
}

void NameTable::forget(ByteRange range) {
  if (range.is_empty()) return;
  split_at(range.begin);
  split_at(range.end);
  const auto first = entries_.lower_bound(range.begin), last = entries_.lower_bound(range.end);
  for (auto at = first; at != last; ++at) {
    const Versions& versions = at->second.versions;
    for (std::size_t age = 0; age < versions.size(); ++age) names_.drop(versions[age].name);
  }
  entries_.erase(first, last);
}

}  // namespace streamguard::core
