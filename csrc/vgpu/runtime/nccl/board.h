// What the ranks of one communicator share: who takes part, and who published which messages.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_BOARD_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_BOARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nccl_abi.h"
#include "shared_memory.h"

namespace streamguard::vgpu::nccl {

enum class Kind : int32_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kReceive,
};

const char* name_of(Kind kind);

// One rank's part of one collective, or one point-to-point message. The bytes lie in the
// publishing rank's arena.
struct Message {
  Kind kind = Kind::kAllReduce;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t reduction = ncclSum;
  int32_t root = 0;
  uint64_t count = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // The factor of a reduction that multiplies first, in `type`; bytes of the value.
  uint32_t has_factor = 0;
  unsigned char factor[8] = {};
};

enum class RankState : uint32_t { kAbsent, kAnnounced, kMapped, kLeft };

// A rank's collectives are numbered; each counter only grows.
constexpr size_t kCollectiveRing = 1024;
constexpr size_t kChannelRing = 128;
constexpr size_t kSplitRing = 8;

struct SplitEntry {
  int32_t color;
  int32_t key;
  ncclUniqueId id;  // written by the new communicator's first rank
};

struct RankSlot {
  std::atomic<RankState> state;
  ProcessIdentity process;
  SegmentAddress arena;
  int32_t device;
  std::atomic<uint64_t> started;     // collectives whose message is published
  std::atomic<uint64_t> consumed;    // collectives whose peers' messages were read
  std::atomic<uint64_t> demanded;    // waits for peers to start collectives below this number
  std::atomic<uint32_t> is_starved;  // cannot publish before peers read
  std::atomic<uint32_t> idleness;    // streamguard::vgpu::Idleness
  std::atomic<uint64_t> splits_posted;
  std::atomic<uint64_t> split_ids_posted;
  SplitEntry splits[kSplitRing];
  Message collectives[kCollectiveRing];
};

// Messages from one rank to one other.
struct Channel {
  std::atomic<uint64_t> sent;
  std::atomic<uint64_t> received;
  std::atomic<uint64_t> wanted;  // the receiver waits for messages below this number
  Message messages[kChannelRing];
};

struct BoardHeader {
  unsigned char nonce[16];
  std::atomic<int32_t> ranks;     // 0 until the first rank joins
  std::atomic<uint32_t> failure;  // ncclResult_t of the first failure
  std::atomic<uint32_t> failure_text_ready;
  char failure_text[2048];
};

// A view of the mapped board. Zero-filled memory is its valid first state.
class Board {
 public:
  Board() = default;
  Board(char* memory, int ranks) : memory_(memory), ranks_(ranks) {}

  static size_t bytes_for(int ranks) {
    return slots_offset() + sizeof(RankSlot) * static_cast<size_t>(ranks) +
           sizeof(Channel) * static_cast<size_t>(ranks) * static_cast<size_t>(ranks);
  }

  BoardHeader& header() const { return *reinterpret_cast<BoardHeader*>(memory_); }
  RankSlot& slot(int rank) const {
    return reinterpret_cast<RankSlot*>(memory_ + slots_offset())[rank];
  }
  Channel& channel(int from, int to) const {
    char* channels = memory_ + slots_offset() + sizeof(RankSlot) * static_cast<size_t>(ranks_);
    return reinterpret_cast<Channel*>(channels)[from * ranks_ + to];
  }

 private:
  static constexpr size_t slots_offset() { return (sizeof(BoardHeader) + 4095) / 4096 * 4096; }

  char* memory_ = nullptr;
  int ranks_ = 0;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomics are shared between processes");

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_BOARD_H_
