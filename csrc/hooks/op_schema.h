#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string>

namespace streamguard::hooks {

/// How the observer treats an operator that has a kernel at the observed dispatch key.
enum class OpClass : uint8_t {
  kNotObserved,   // views and metadata: no byte of a tensor is touched
  kFactory,       // allocates without touching the bytes; only a point in time
  kRecordStream,  // tells the allocator about a stream
  kCopy,          // aten::copy_: the devices of both sides decide what happens
  kListCopy,      // aten::_foreach_copy_: one kernel on one device, else one copy_ after the other
  kCollective,    // c10d: the stream is found out by watching the op
  kKernel,        // reads and writes as its schema says
};

enum class ArgumentUse : uint8_t { kNone, kRead, kWrite };

/// What one operator's schema says about the bytes it touches.
struct OpSchema {
  std::string name;  // without overload, as people write it: "aten::add_"
  OpClass op_class;
  c10::SmallVector<ArgumentUse, 8> arguments;
  c10::SmallVector<ArgumentUse, 4> returns;  // kWrite where tensors come back, fresh or written
  bool is_in_place = false;                  // some argument is written
};

OpSchema describe(const c10::OperatorHandle& op);

/// Whether the op writes a tensor or returns one; the others only ask for a number.
bool touches_tensors(const OpSchema& schema);

}  // namespace streamguard::hooks
