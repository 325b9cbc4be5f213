#include "core/name_table.h"

#include <algorithm>

namespace streamguard::core {

void NameTable::Entry::push(OpId since, AllocationId block,
                            const std::shared_ptr<const Name>& name) {
  const bool is_first = versions.empty() || versions.back().block != block;
  if (versions.size() == kVersionsPerByte) versions.erase(versions.begin());
  versions.push_back({since, block, is_first, name});
}

const NameTable::Version* NameTable::Entry::find(OpId at, AllocationId block) const {
  const Version* found = nullptr;
  for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
    if (version->block != block) continue;
    if (!(at < version->since)) return &*version;
    if (version->is_first) found = &*version;
  }
  return found;
}

void NameTable::split_at(Address address) {
  auto after = entries_.upper_bound(address);
  if (after == entries_.begin()) return;
  auto before = std::prev(after);
  if (before->first == address || before->second.end <= address) return;
  Entry right = before->second;
  before->second.end = address;
  entries_.emplace_hint(after, address, std::move(right));
}

void NameTable::add(ByteRange range, std::string_view text, OpId since, AllocationId block) {
  if (range.is_empty()) return;
  split_at(range.begin);
  split_at(range.end);
  const auto name = std::make_shared<const Name>(Name{range, std::string(text)});
  auto at = entries_.lower_bound(range.begin);
  for (Address begin = range.begin; begin < range.end;) {
    if (at == entries_.end() || at->first > begin) {
      const Address end = at == entries_.end() ? range.end : std::min(range.end, at->first);
      at = entries_.emplace_hint(at, begin, Entry{end, {}});
    }
    const auto& versions = at->second.versions;
    const bool is_same = !versions.empty() && versions.back().name->text == text &&
                         versions.back().name->whole == range && versions.back().block == block;
    if (!is_same) at->second.push(since, block, name);
    begin = at->second.end;
    ++at;
  }
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
    const Version* version = at->second.find(at_op, block);
    if (version == nullptr) continue;
    const Name& name = *version->name;
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
  entries_.erase(entries_.lower_bound(range.begin), entries_.lower_bound(range.end));
}

}  // namespace streamguard::core
