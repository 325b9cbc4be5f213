#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

namespace streamguard::values {

// Host values on their way into device tensors.
//
// The bytes are written when the stream gets there and not when the values are known: the block of
// a new tensor may have been freed by another thread that shares the stream, whose ops on it are
// still pending.
class StreamFill {
 public:
  void add(const at::Tensor& on_device, const at::Tensor& result);

  // Puts the writes on the current stream of `device`.
  void enqueue(c10::Device device) &&;

 private:
  struct Write {
    at::Tensor alias;
    at::Tensor result;
  };
  static void run_on_stream(void* payload);

  std::vector<Write> writes_;
};

}  // namespace streamguard::values
