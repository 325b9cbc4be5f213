#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "op_profile.h"

namespace streamguard::values {

// A result of the CPU kernel and the device bytes it belongs into.
struct Destination {
  std::size_t result;
  std::optional<std::size_t> element;  // of a tensor list
  at::Tensor alias;
};

// The CPU execution of one op, carried by a host function on the op's stream.
//
// Thread safety: built by one thread, run by one thread at a time (a stream, or the serialised
// launches of one executable graph).
// Invariants:
//  1. Owns no device memory: arguments and destinations are aliases.
//  2. A replayable twin leaves its arguments as they were and may run any number of times.
class HostTwin {
 public:
  HostTwin(const c10::OperatorHandle& op, const OpProfile& profile,
           std::optional<std::uint64_t> seed)
      : op_(op), profile_(&profile), seed_(seed) {}

  // The values the CPU kernel will be called with. Device tensors become aliases; CPU tensors are
  // copied, because the program may overwrite them as soon as the op was issued.
  // out= arguments are left for `set_argument`: the previous kernel may still resize them.
  void take_arguments(c10::ArrayRef<c10::IValue> arguments);
  void set_argument(std::size_t index, c10::IValue value) { arguments_[index] = std::move(value); }

  // The previous kernel gave the in-place argument `index`, returned as the op's `result`-th,
  // another shape, and perhaps another storage. The CPU kernel then works on a copy of what it was,
  // and the outcome goes into `resized`.
  void redirect_resized_argument(std::size_t index, std::size_t result, const at::Tensor& resized);
  bool was_resized(std::size_t index, const at::Tensor& now) const;

  // Device tensors in `value`, the op's `result`-th, receive what the CPU kernel returns there.
  void add_destinations(std::size_t result, const c10::IValue& value);

  // Runs once. Failures go to the error slot.
  void run() noexcept;

  void make_replayable() { is_replayable_ = true; }
  bool is_replayable() const { return is_replayable_; }

 private:
  void compute(torch::jit::Stack& stack);
  void store(const torch::jit::Stack& results) const;

  c10::OperatorHandle op_;
  const OpProfile* profile_;
  std::optional<std::uint64_t> seed_;
  torch::jit::Stack arguments_;
  std::vector<std::size_t> copied_arguments_;
  std::vector<Destination> destinations_;
  std::uint64_t runs_ = 0;
  bool is_replayable_ = false;
};

// Puts the twin on the current stream of `device`. A failure that is known when this returns (the
// eager schedule runs the twin inside) is thrown.
void enqueue(std::unique_ptr<HostTwin> twin, c10::Device device);

bool is_capturing(c10::Device device);

}  // namespace streamguard::values
