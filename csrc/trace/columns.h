// A chunk of rows as columns, each a plain array, as Arrow wants them.
#ifndef STREAMGUARD_TRACE_COLUMNS_H_
#define STREAMGUARD_TRACE_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/recorder.h"

namespace streamguard::trace {

// Where a row has no thread, stream, label or text the column holds kNone, where it has no stack 0.
struct Columns {
  explicit Columns(const Recorder::Chunk& chunk);

  std::size_t rows;
  std::vector<std::uint8_t> verb, kind;
  std::vector<std::int32_t> device;
  std::vector<std::uint32_t> thread, stream, label, text, site, forward_site;
  std::vector<std::uint64_t> op, id, begin, end;
  // Accesses of row k are those from access_offsets[k] to before access_offsets[k + 1].
  std::vector<std::int32_t> access_offsets;
  std::vector<std::uint8_t> access_is_write;
  std::vector<std::uint64_t> access_begin, access_width, access_pitch, access_rows;
  std::vector<std::uint64_t> access_allocation;
};

}  // namespace streamguard::trace

#endif  // STREAMGUARD_TRACE_COLUMNS_H_
