#include "communicator.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

namespace streamguard::vgpu::nccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kMagic[8] = "sgvgpu1";
constexpr milliseconds kAliveCheck{100};
constexpr std::chrono::microseconds kJoinPoll{200};

// What an ncclUniqueId holds here.
struct IdContents {
  char magic[8];
  SegmentAddress board;
  ProcessIdentity creator;
  unsigned char nonce[16];
};
static_assert(sizeof(IdContents) <= sizeof(ncclUniqueId), "an id must hold it");

IdContents contents_of(const ncclUniqueId& id) {
  IdContents contents;
  std::memcpy(&contents, id.internal, sizeof contents);
  return contents;
}

// Boards made here that other ranks may still have to find, by nonce.
struct OpenBoards {
  std::mutex mutex;
  std::map<std::string, SharedMemory> boards;
};
OpenBoards& open_boards() {
  static auto* const kBoards = new OpenBoards;
  return *kBoards;
}

std::string key_of(const IdContents& contents) {
  return {reinterpret_cast<const char*>(contents.nonce), sizeof contents.nonce};
}

}  // namespace

ncclResult_t make_unique_id(ncclUniqueId* id) {
  IdContents contents{};
  std::memcpy(contents.magic, kMagic, sizeof contents.magic);
  if (getrandom(contents.nonce, sizeof contents.nonce, 0) != sizeof contents.nonce) {
    return ncclSystemError;
  }
  std::string error;
  SharedMemory board = SharedMemory::create(sizeof(BoardHeader), &error);
  if (!board) return ncclSystemError;
  std::memcpy(reinterpret_cast<BoardHeader*>(board.data())->nonce, contents.nonce,
              sizeof contents.nonce);
  contents.board = board.address();
  contents.creator = own_identity();
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &contents, sizeof contents);
  const std::lock_guard<std::mutex> guard(open_boards().mutex);
  open_boards().boards[key_of(contents)] = std::move(board);
  return ncclSuccess;
}

Communicator::Communicator(const ncclUniqueId& id, int ranks, int rank, int device,
                           std::string profiled_name)
    : id_(id),
      ranks_(ranks),
      rank_(rank),
      device_(device),
      profiled_name_(std::move(profiled_name)),
      peer_arenas_(static_cast<size_t>(ranks)),
      compared_(static_cast<size_t>(ranks)),
      chain_(streamguard_vgpu_chain_create()) {}

Communicator::~Communicator() {
  leave();
  streamguard_vgpu_chain_destroy(chain_);
}

std::string Communicator::name() const {
  const IdContents contents = contents_of(id_);
  char text[24];
  std::snprintf(text, sizeof text, "%02x%02x%02x%02x", contents.nonce[0], contents.nonce[1],
                contents.nonce[2], contents.nonce[3]);
  return text;
}

ncclResult_t Communicator::announce() {
  const IdContents contents = contents_of(id_);
  if (std::memcmp(contents.magic, kMagic, sizeof kMagic) != 0) {
    set_text("the unique id was not made by the virtual GPU");
    return ncclInvalidArgument;
  }
  std::string error;
  board_memory_ = SharedMemory::open(contents.board, Board::bytes_for(ranks_), &error);
  if (board_memory_) arena_memory_ = SharedMemory::create(kArenaBytes, &error);
  if (!board_memory_ || !arena_memory_) {
    set_text(error);
    return ncclSystemError;
  }
  board_ = Board(board_memory_.data(), ranks_);
  if (std::memcmp(board_.header().nonce, contents.nonce, sizeof contents.nonce) != 0) {
    set_text("the communicator's board is gone: the rank that made the unique id left");
    return ncclSystemError;
  }
  int32_t expected = 0;
  if (!board_.header().ranks.compare_exchange_strong(expected, ranks_) && expected != ranks_) {
    set_text("ranks disagree on the communicator's size: " + std::to_string(expected) + " and " +
             std::to_string(ranks_));
    return ncclInvalidArgument;
  }
  own().process = own_identity();
  own().arena = arena_memory_.address();
  own().device = device_;
  RankState absent = RankState::kAbsent;
  if (!own().state.compare_exchange_strong(absent, RankState::kAnnounced)) {
    set_text("rank " + std::to_string(rank_) + " joined twice");
    return ncclInvalidUsage;
  }
  return ncclSuccess;
}

ncclResult_t Communicator::map_peers() {
  if (const ncclResult_t result = wait_for_all(RankState::kAnnounced); result != ncclSuccess) {
    return result;
  }
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    std::string error;
    SharedMemory& arena = peer_arenas_[static_cast<size_t>(peer)];
    arena = SharedMemory::open(board_.slot(peer).arena, kArenaBytes, &error);
    if (!arena) {
      set_text(error);
      return ncclSystemError;
    }
    arena.close_descriptor();
  }
  own().state = RankState::kMapped;
  return ncclSuccess;
}

ncclResult_t Communicator::complete() {
  if (const ncclResult_t result = wait_for_all(RankState::kMapped); result != ncclSuccess) {
    return result;
  }
  // Everyone holds mappings: from here on nothing can be found from outside.
  board_memory_.close_descriptor();
  arena_memory_.close_descriptor();
  {
    const std::lock_guard<std::mutex> guard(open_boards().mutex);
    open_boards().boards.erase(key_of(contents_of(id_)));
  }
  is_monitored_ = true;
  streamguard_vgpu_peer_monitor monitor{};
  monitor.context = this;
  monitor.has_unmet_demand = [](void* self) {
    return static_cast<Communicator*>(self)->demand() != Demand::kNone ? 1 : 0;
  };
  monitor.publish_idleness = [](void* self, int idleness) {
    static_cast<Communicator*>(self)->own().idleness = static_cast<uint32_t>(idleness);
  };
  monitor.end_if_deadlocked = [](void* self, long deadlock_s) {
    return static_cast<Communicator*>(self)->end_if_deadlocked(deadlock_s);
  };
  streamguard_vgpu_add_peer_monitor(&monitor);
  uint64_t number = 0;
  std::memcpy(&number, contents_of(id_).nonce, sizeof number);
  auto profiler = std::make_shared<ProfilerContext>(number, profiled_name_, ranks_, rank_);
  if (profiler->is_active()) set_profiler(std::move(profiler));
  return ncclSuccess;
}

ncclResult_t Communicator::wait_for_all(RankState state) {
  const IdContents contents = contents_of(id_);
  auto next_check = steady_clock::now() + kAliveCheck;
  for (int rank = 0; rank < ranks_; ++rank) {
    while (board_.slot(rank).state.load() < state) {
      if (aborted_) return ncclInvalidUsage;
      if (steady_clock::now() > next_check) {
        next_check = steady_clock::now() + kAliveCheck;
        const ProcessIdentity& peer = board_.slot(rank).process;
        const bool announced = board_.slot(rank).state.load() != RankState::kAbsent;
        // A rank that came and ended between the two looks took part.
        if (!is_alive(announced ? peer : contents.creator) &&
            board_.slot(rank).state.load() < state) {
          set_text("rank " + std::to_string(rank) + " ended while the communicator was made");
          return ncclRemoteError;
        }
      }
      std::this_thread::sleep_for(kJoinPoll);
    }
  }
  return ncclSuccess;
}

Communicator::SplitResult Communicator::split(int color, int key) {
  const uint64_t number = splits_++;
  SplitEntry& entry = own().splits[number % kSplitRing];
  entry.color = color;
  entry.key = key;
  own().splits_posted = number + 1;
  SplitResult result{ncclSuccess, std::nullopt, 0, 0};
  int leader = rank_;
  auto wait_until = [&](const std::atomic<uint64_t>& counter, int rank) {
    auto next_check = steady_clock::now() + kAliveCheck;
    while (counter.load() <= number) {
      if (aborted_ || board_.header().failure.load() != 0) return false;
      if (steady_clock::now() > next_check) {
        next_check = steady_clock::now() + kAliveCheck;
        if (!is_alive(board_.slot(rank).process) && counter.load() <= number) return false;
      }
      std::this_thread::sleep_for(kJoinPoll);
    }
    return true;
  };
  for (int rank = 0; rank < ranks_; ++rank) {
    const RankSlot& slot = board_.slot(rank);
    if (!wait_until(slot.splits_posted, rank)) {
      fail(ncclRemoteError, "rank " + std::to_string(rank) + " did not take part in a split");
      return {ncclRemoteError, std::nullopt, 0, 0};
    }
    const SplitEntry& other = slot.splits[number % kSplitRing];
    if (color == kNcclNoColor || other.color != color) continue;
    ++result.ranks;
    const SplitEntry& first = board_.slot(leader).splits[number % kSplitRing];
    if (other.key < first.key || (other.key == first.key && rank < leader)) leader = rank;
    if (other.key < key || (other.key == key && rank < rank_)) ++result.rank;
  }
  if (color == kNcclNoColor) return result;
  if (leader == rank_) {
    result.result = make_unique_id(&entry.id);
    own().split_ids_posted = number + 1;
    result.id = entry.id;
    return result;
  }
  if (!wait_until(board_.slot(leader).split_ids_posted, leader)) {
    result.result = ncclRemoteError;
    return result;
  }
  result.id = board_.slot(leader).splits[number % kSplitRing].id;
  return result;
}

void Communicator::abort() {
  aborted_ = true;
  leave();
}

void Communicator::leave() {
  if (is_monitored_) streamguard_vgpu_remove_peer_monitor(this);
  is_monitored_ = false;
  if (board_memory_) own().state = RankState::kLeft;
  set_profiler(nullptr);
}

std::shared_ptr<ProfilerContext> Communicator::profiler() const {
  const std::lock_guard<std::mutex> guard(profiler_mutex_);
  return profiler_;
}

// The old one ends outside the lock: that calls the plugin.
void Communicator::set_profiler(std::shared_ptr<ProfilerContext> profiler) {
  const std::lock_guard<std::mutex> guard(profiler_mutex_);
  profiler_.swap(profiler);
}

void Communicator::set_text(const std::string& text) {
  const std::lock_guard<std::mutex> guard(text_mutex_);
  text_ = text;
}

}  // namespace streamguard::vgpu::nccl
