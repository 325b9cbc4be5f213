#include "trace/columns.h"

namespace streamguard::trace {

Columns::Columns(const Recorder::Chunk& chunk) : rows(chunk.rows.size()) {
  const auto fill = [](auto& column, const auto& items, auto value_of) {
    column.reserve(items.size());
    for (const auto& item : items) column.push_back(value_of(item));
  };
  fill(verb, chunk.rows, [](const Row& row) { return static_cast<std::uint8_t>(row.verb); });
  fill(kind, chunk.rows, [](const Row& row) { return static_cast<std::uint8_t>(row.kind); });
  fill(device, chunk.rows, [](const Row& row) { return row.device; });
  fill(thread, chunk.rows, [](const Row& row) { return row.thread; });
  fill(stream, chunk.rows, [](const Row& row) { return row.stream; });
  fill(label, chunk.rows, [](const Row& row) { return row.label; });
  fill(text, chunk.rows, [](const Row& row) { return row.text; });
  fill(site, chunk.rows, [](const Row& row) { return static_cast<std::uint32_t>(row.site); });
  fill(forward_site, chunk.rows,
       [](const Row& row) { return static_cast<std::uint32_t>(row.site >> 32); });
  fill(op, chunk.rows, [](const Row& row) { return row.op; });
  fill(id, chunk.rows, [](const Row& row) { return row.id; });
  fill(begin, chunk.rows, [](const Row& row) { return row.begin; });
  fill(end, chunk.rows, [](const Row& row) { return row.end; });

  access_offsets.reserve(rows + 1);
  access_offsets.push_back(0);
  for (const Row& row : chunk.rows) {
    access_offsets.push_back(access_offsets.back() + static_cast<std::int32_t>(row.accesses));
  }
  using core::Access;
  const auto& accesses = chunk.accesses;
  fill(access_is_write, accesses, [](const Access& access) {
    return static_cast<std::uint8_t>(access.kind == core::AccessKind::kWrite);
  });
  fill(access_begin, accesses, [](const Access& access) { return access.region.begin; });
  fill(access_width, accesses, [](const Access& access) { return access.region.width; });
  fill(access_pitch, accesses, [](const Access& access) { return access.region.pitch; });
  fill(access_rows, accesses, [](const Access& access) { return access.region.rows; });
  fill(access_allocation, accesses, [](const Access& access) { return access.allocation.value; });
}

}  // namespace streamguard::trace
