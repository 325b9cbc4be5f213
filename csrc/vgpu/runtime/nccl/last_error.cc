#include "last_error.h"

#include <mutex>

namespace streamguard::vgpu::nccl {
namespace {

std::mutex mutex;
std::string& text_of_last_error() {
  static auto* const kText = new std::string;
  return *kText;
}

}  // namespace

void set_last_error(const std::string& text) {
  const std::lock_guard<std::mutex> guard(mutex);
  text_of_last_error() = text;
}

std::string last_error() {
  const std::lock_guard<std::mutex> guard(mutex);
  return text_of_last_error();
}

}  // namespace streamguard::vgpu::nccl
