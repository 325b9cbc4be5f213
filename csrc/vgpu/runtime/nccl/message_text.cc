#include "message_text.h"

namespace streamguard::vgpu::nccl {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "all_reduce";
    case Kind::kReduce:
      return "reduce";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAllGather:
      return "all_gather";
    case Kind::kReduceScatter:
      return "reduce_scatter";
    case Kind::kAllToAll:
      return "all_to_all";
    case Kind::kGather:
      return "gather";
    case Kind::kScatter:
      return "scatter";
    case Kind::kSend:
      return "send";
    case Kind::kReceive:
      return "recv";
  }
  return "unknown";
}

std::string describe(const Message& message) {
  std::string text = std::string(name_of(message.kind)) +
                     "(count=" + std::to_string(message.count) + ", " + name_of(message.type);
  switch (message.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kReduceScatter: {
      static constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg", "premul_sum"};
      text += std::string(", ") + (message.has_factor != 0 ? kNames[5] : kNames[message.reduction]);
      break;
    }
    default:
      break;
  }
  if (message.root >= 0) text += ", root=" + std::to_string(message.root);
  return text + ")";
}

}  // namespace streamguard::vgpu::nccl
