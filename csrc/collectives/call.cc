#include "collectives/call.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace streamguard::collectives {
namespace {

// Multiply-xorshift mix of 64 bits: two different calls collide once in 10^19.
uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ull + (hash << 6) + (hash >> 2);
  hash *= 0xD6E8FEB86659FD93ull;
  return hash ^ (hash >> 32);
}

// One message's contribution to `balance`: the sender adds it, the receiver subtracts it.
uint64_t message(int from, int to, int64_t count) {
  return mix(mix(mix(0, static_cast<uint64_t>(from)), static_cast<uint64_t>(to)),
             static_cast<uint64_t>(count));
}

struct Tensors {
  c10::SmallVector<int64_t, 8> counts;
  int64_t total = 0;
  const at::Tensor* first = nullptr;

  void add(const c10::IValue& value) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (!tensor.defined()) return;
      if (first == nullptr) first = &tensor;
      counts.push_back(tensor.numel());
      total += tensor.numel();
    } else if (value.isList()) {
      for (const c10::IValue& element : value.toListRef()) add(element);
    }
  }
};

bool is_even(const Tensors& tensors) {
  for (const int64_t count : tensors.counts) {
    if (count != tensors.counts.front()) return false;
  }
  return true;
}

std::vector<int64_t> splits_of(const c10::IValue* value, const Tensors& tensors, int size,
                               bool is_list) {
  if (is_list) return {tensors.counts.begin(), tensors.counts.end()};
  std::vector<int64_t> splits = value != nullptr ? value->toIntVector() : std::vector<int64_t>{};
  if (splits.empty()) return std::vector<int64_t>(size, size == 0 ? 0 : tensors.total / size);
  // Splits count rows of the first dimension.
  const int64_t rows =
      tensors.first == nullptr || tensors.first->dim() == 0 ? 0 : tensors.first->size(0);
  const int64_t row = rows == 0 ? 0 : tensors.total / rows;
  for (int64_t& split : splits) split *= row;
  return splits;
}

}  // namespace

CallReader::CallReader(const c10::OperatorHandle& op, uint8_t position)
    : op_(kOps[position]), position_(position) {
  const c10::FunctionSchema& schema = op.schema();
  group_ = schema.argumentIndexWithName("process_group").value_or(-1);
  reduce_op_ = schema.argumentIndexWithName("reduce_op");
  if (!op_.peer.empty()) peer_ = schema.argumentIndexWithName(op_.peer);
  tag_ = schema.argumentIndexWithName("tag");
  asynchronous_ = schema.argumentIndexWithName("async_op");
  output_splits_ = schema.argumentIndexWithName("output_split_sizes");
  input_splits_ = schema.argumentIndexWithName("input_split_sizes");
}

bool CallReader::read(c10::ArrayRef<c10::IValue> arguments, int rank, int size,
                      Record& record) const {
  Tensors first;
  Tensors second;
  first.add(arguments[0]);
  const bool has_second =
      op_.sizes != Sizes::kNone && op_.sizes != Sizes::kPeer && op_.sizes != Sizes::kFirst;
  const bool reads_second = has_second || op_.kind == 7 || op_.kind == 8;
  if (reads_second) second.add(arguments[1]);
  const at::Tensor* tensor = first.first != nullptr ? first.first : second.first;
  if (tensor != nullptr && (tensor->is_meta() || tensor->key_set().has(c10::DispatchKey::Meta))) {
    return false;
  }
  const Tensors& input = reads_second ? second : first;
  record.op = position_;
  record.input_count = op_.sizes == Sizes::kNone ? 0 : input.total;
  record.output_count = op_.sizes == Sizes::kNone ? 0 : first.total;
  record.dtype = 255;
  record.stream = -1;
  if (tensor != nullptr && op_.sizes != Sizes::kNone) {
    const auto item = static_cast<int64_t>(tensor->element_size());
    record.dtype = static_cast<uint8_t>(tensor->scalar_type());
    record.input_bytes = record.input_count * item;
    record.output_bytes = record.output_count * item;
    if (tensor->has_storage()) {
      record.buffer = reinterpret_cast<uint64_t>(tensor->storage().data()) +
                      static_cast<uint64_t>(tensor->storage_offset() * item);
    }
    if (!tensor->is_inference()) {
      record.version = static_cast<uint32_t>(tensor->_version());
      record.flags |= kMutable;
    }
  }
  if (tensor != nullptr && !tensor->is_cpu()) {
    const c10::impl::VirtualGuardImpl guard(tensor->device().type());
    record.stream = guard.getStream(tensor->device()).id();
  }
  record.reduce_op = 255;
  if (reduce_op_) {
    record.reduce_op =
        static_cast<uint8_t>(arguments[*reduce_op_].toCustomClass<c10d::ReduceOp>()->op_);
  }
  record.peer = peer_ ? static_cast<int32_t>(arguments[*peer_].toInt()) : -1;
  record.tag = tag_ ? static_cast<int32_t>(arguments[*tag_].toInt()) : 0;
  if (asynchronous_ && arguments[*asynchronous_].toBool()) record.flags |= kAsynchronous;

  uint64_t hash = mix(op_.kind + 1, record.dtype);
  hash = mix(hash, record.reduce_op);
  // The two ends of a message name each other.
  if (op_.sizes != Sizes::kPeer) hash = mix(hash, static_cast<uint64_t>(record.peer));
  uint64_t balance = 0;
  const auto add_counts = [&hash](const Tensors& tensors) {
    for (const int64_t count : tensors.counts) hash = mix(hash, static_cast<uint64_t>(count));
  };
  switch (op_.sizes) {
    case Sizes::kNone:
      break;
    case Sizes::kFirst:
    case Sizes::kPeer:
      add_counts(first);
      break;
    case Sizes::kSecond:
      add_counts(second);
      break;
    case Sizes::kPerRankOut:
    case Sizes::kPerRankIn: {
      // An even list is on the wire what the one-tensor form is.
      const Tensors& listed = op_.sizes == Sizes::kPerRankOut ? first : second;
      if (is_even(listed) && !listed.counts.empty()) {
        hash = mix(hash, static_cast<uint64_t>(listed.counts.front()));
      } else {
        record.flags |= kUneven;
        add_counts(listed);
      }
      break;
    }
    case Sizes::kExchange: {
      const bool is_list = !output_splits_;
      const auto out =
          splits_of(output_splits_ ? &arguments[*output_splits_] : nullptr, first, size, is_list);
      const auto in =
          splits_of(input_splits_ ? &arguments[*input_splits_] : nullptr, second, size, is_list);
      for (size_t i = 0; i < in.size(); ++i) {
        balance += message(rank, static_cast<int>(i), in[i]);
        if (in[i] != in[0]) record.flags |= kUneven;
      }
      for (size_t i = 0; i < out.size(); ++i) {
        balance -= message(static_cast<int>(i), rank, out[i]);
      }
      break;
    }
    case Sizes::kToRoot:
      balance = message(rank, record.peer, second.total);
      if (rank == record.peer) {
        for (size_t i = 0; i < first.counts.size(); ++i) {
          balance -= message(static_cast<int>(i), rank, first.counts[i]);
        }
      }
      break;
    case Sizes::kFromRoot:
      if (rank == record.peer) {
        for (size_t i = 0; i < second.counts.size(); ++i) {
          balance += message(rank, static_cast<int>(i), second.counts[i]);
        }
      }
      balance -= message(record.peer, rank, first.total);
      break;
  }
  record.fingerprint = hash;
  record.balance = balance;
  return true;
}

}  // namespace streamguard::collectives
