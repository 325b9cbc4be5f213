#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>

#include "collectives/ops.h"
#include "collectives/record.h"

namespace streamguard::collectives {

/// Where an op's schema keeps what is recorded; found once per op.
class CallReader {
 public:
  CallReader(const c10::OperatorHandle& op, uint8_t position);

  /// Fills what the arguments tell: sizes, dtype, reduce op, root or peer, buffer, stream,
  /// fingerprint and balance. Returns false for a call that moves no data, as while tracing.
  ///
  /// Args: `rank` and `size` are of the group, which `group_argument` holds.
  bool read(c10::ArrayRef<c10::IValue> arguments, int rank, int size, Record& record) const;

  const Op& op() const { return op_; }
  int group_argument() const { return group_; }

 private:
  const Op& op_;
  uint8_t position_;
  int group_;
  std::optional<int> reduce_op_, peer_, tag_, asynchronous_, output_splits_, input_splits_;
};

}  // namespace streamguard::collectives
