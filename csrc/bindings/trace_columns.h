// A recorded chunk as Python objects; both extension modules hand chunks out.
#ifndef STREAMGUARD_BINDINGS_TRACE_COLUMNS_H_
#define STREAMGUARD_BINDINGS_TRACE_COLUMNS_H_

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "trace/columns.h"

namespace streamguard::bindings {

template <typename Value>
pybind11::bytes bytes_of(const std::vector<Value>& column) {
  return {reinterpret_cast<const char*>(column.data()), column.size() * sizeof(Value)};
}

// Column name to its bytes, in the machine's byte order; `rows` is a number, `new_texts` a list.
inline pybind11::dict dict_of(const trace::Columns& columns,
                              const std::vector<std::string>& new_texts) {
  pybind11::dict result;
  result["rows"] = columns.rows;
  result["new_texts"] = new_texts;
  result["verb"] = bytes_of(columns.verb);
  result["kind"] = bytes_of(columns.kind);
  result["device"] = bytes_of(columns.device);
  result["thread"] = bytes_of(columns.thread);
  result["stream"] = bytes_of(columns.stream);
  result["label"] = bytes_of(columns.label);
  result["text"] = bytes_of(columns.text);
  result["site"] = bytes_of(columns.site);
  result["forward_site"] = bytes_of(columns.forward_site);
  result["op"] = bytes_of(columns.op);
  result["id"] = bytes_of(columns.id);
  result["begin"] = bytes_of(columns.begin);
  result["end"] = bytes_of(columns.end);
  result["access_offsets"] = bytes_of(columns.access_offsets);
  result["access_is_write"] = bytes_of(columns.access_is_write);
  result["access_begin"] = bytes_of(columns.access_begin);
  result["access_width"] = bytes_of(columns.access_width);
  result["access_pitch"] = bytes_of(columns.access_pitch);
  result["access_rows"] = bytes_of(columns.access_rows);
  result["access_allocation"] = bytes_of(columns.access_allocation);
  return result;
}

}  // namespace streamguard::bindings

#endif  // STREAMGUARD_BINDINGS_TRACE_COLUMNS_H_
