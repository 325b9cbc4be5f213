#include "hooks/delayed_try.h"

#include <cstring>

namespace streamguard::hooks {
namespace {

bool differ(const std::byte* a, const std::byte* b, uint64_t size) {
  return a != nullptr && b != nullptr && std::memcmp(a, b, size) != 0;
}

uint64_t count_different(const std::byte* a, const std::byte* b, uint64_t size) {
  if (a == nullptr || b == nullptr) return 0;
  uint64_t count = 0;
  for (uint64_t i = 0; i < size; ++i) count += a[i] != b[i];
  return count;
}

}  // namespace

bool DelayedTry::prepare() {
  return issued.prepare() && started.prepare() && ended.prepare() && met.prepare() &&
         left.prepare();
}

void DelayedTry::clear() {
  bytes = {};
  for (Snapshot* snapshot : {&issued, &started, &ended, &met, &left}) snapshot->clear();
}

uint64_t DelayedTry::changed_bytes() const {
  const uint64_t size = bytes.size_bytes();
  const std::byte* const second_began_on = met.at(bytes);
  switch (kind) {
    case core::Race::Kind::kRaw:
      return count_different(second_began_on, ended.at(bytes), size);
    case core::Race::Kind::kWar: {
      // Behind the read as well: the write may have come while it ran.
      const uint64_t before = count_different(second_began_on, started.at(bytes), size);
      return before > 0 ? before : count_different(second_began_on, ended.at(bytes), size);
    }
    case core::Race::Kind::kWaw: {
      const bool is_overtaken = differ(second_began_on, ended.at(bytes), size) ||
                                differ(issued.at(bytes), started.at(bytes), size);
      return is_overtaken ? count_different(ended.at(bytes), left.at(bytes), size) : 0;
    }
    case core::Race::Kind::kUaf:
      break;
  }
  return 0;
}

}  // namespace streamguard::hooks
