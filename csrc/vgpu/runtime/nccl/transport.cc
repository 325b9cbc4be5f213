// Communicator: publishing messages, waiting for peers' messages, failures.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "communicator.h"
#include "last_error.h"
#include "message_text.h"

namespace streamguard::vgpu::nccl {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAliveCheck{50};
// After a failure ops wait this long for the program (torch's watchdog) to abort; then the
// device answers with an error, so that no program goes on with wrong data or hangs.
constexpr std::chrono::seconds kAbortGrace{3};
constexpr std::chrono::seconds kFailureTextWait{1};  // written within microseconds

bool agree(const Message& a, const Message& b) {
  return a.kind == b.kind && a.type == b.type && a.count == b.count && a.root == b.root &&
         a.has_factor == b.has_factor && a.reduction == b.reduction;
}

}  // namespace

bool Communicator::is_read(const Published& published) const {
  if (published.channel >= 0) {
    return board_.channel(rank_, published.channel).received > published.number;
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    if (board_.slot(rank).consumed <= published.number) return false;
  }
  return true;
}

void Communicator::retire_read_messages() {
  for (auto entry = published_.begin(); entry != published_.end();) {
    if (!is_read(*entry)) {
      ++entry;
      continue;
    }
    arena_.release(entry->offset, entry->bytes, arena_memory_.data());
    entry = published_.erase(entry);
  }
}

bool Communicator::stage(Message& message, const void* data) {
  retire_read_messages();
  message.offset = arena_.allocate(message.bytes);
  if (message.offset == kNoSpace) return false;
  if (message.bytes > 0) std::memcpy(arena_memory_.data() + message.offset, data, message.bytes);
  return true;
}

bool Communicator::publish(Message message, const void* data) {
  const uint64_t number = own().started;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (board_.slot(rank).consumed + kCollectiveRing <= number) {
      own().is_starved = 1;
      return false;
    }
  }
  if (!stage(message, data)) {
    own().is_starved = 1;
    return false;
  }
  own().is_starved = 0;
  published_.push_back({number, -1, message.offset, message.bytes});
  own().collectives[number % kCollectiveRing] = message;
  own().started.store(number + 1, std::memory_order_release);
  return true;
}

bool Communicator::send(int peer, Message message, const void* data) {
  Channel& channel = board_.channel(rank_, peer);
  const uint64_t number = channel.sent;
  if (channel.received + kChannelRing <= number || !stage(message, data)) {
    own().is_starved = 1;
    return false;
  }
  own().is_starved = 0;
  published_.push_back({number, peer, message.offset, message.bytes});
  channel.messages[number % kChannelRing] = message;
  channel.sent.store(number + 1, std::memory_order_release);
  return true;
}

// Why `peer` will do nothing more; empty while it may.
std::string Communicator::end_of(int peer) {
  const RankSlot& slot = board_.slot(peer);
  const std::string rank = "rank " + std::to_string(peer);
  if (slot.state == RankState::kLeft) return rank + " has left the communicator";
  const auto now = steady_clock::now();
  if (now - checked_alive_at_ <= kAliveCheck) return "";
  checked_alive_at_ = now;
  if (is_alive(slot.process)) return "";
  return rank + " (process " + std::to_string(slot.process.process) + ") ended";
}

// A peer may publish its part between a look at its part and a look at its end, and then leave as
// it should: what it published counts, so it is looked for once more after its end was seen.
template <class HasArrived>
PeerWait Communicator::look_at(int peer, const Message& own_message, HasArrived has_arrived) {
  if (has_arrived()) return PeerWait::kArrived;
  if (aborted_ || async_error() != ncclSuccess) return PeerWait::kWaiting;
  const std::string end = end_of(peer);
  if (end.empty()) {
    return board_.slot(peer).idleness != 0 ? PeerWait::kStalled : PeerWait::kWaiting;
  }
  if (has_arrived()) return PeerWait::kArrived;
  if (streamguard_vgpu_is_ending() != 0) {
    // Both programs have ended: what was still queued is lost, and nobody is there to be told.
    aborted_ = true;
    return PeerWait::kWaiting;
  }
  fail(ncclRemoteError,
       end + ", rank " + std::to_string(rank_) + " waits for it in " + describe(own_message));
  return PeerWait::kWaiting;
}

PeerWait Communicator::await_collective(int rank, uint64_t index, const Message& own_message) {
  const RankSlot& slot = board_.slot(rank);
  const PeerWait wait = look_at(rank, own_message, [&] {
    if (slot.started.load(std::memory_order_acquire) > index) return true;
    if (own().demanded <= index) own().demanded = index + 1;
    return false;
  });
  if (wait != PeerWait::kArrived) return wait;
  const Message& theirs = collective_of(rank, index);
  if (agree(theirs, own_message)) return PeerWait::kArrived;
  fail_mismatch(rank, index, own_message, theirs);
  return PeerWait::kWaiting;
}

void Communicator::fail_mismatch(int peer, uint64_t index, const Message& own_message,
                                 const Message& theirs) {
  fail(ncclInvalidUsage, "collective " + std::to_string(index) + " differs: rank " +
                             std::to_string(rank_) + " called " + describe(own_message) +
                             ", rank " + std::to_string(peer) + " called " + describe(theirs));
}

void Communicator::compare_with_peers() {
  const uint64_t own_started = own().started;
  for (int rank = 0; rank < ranks_; ++rank) {
    const uint64_t their_started = board_.slot(rank).started.load(std::memory_order_acquire);
    const uint64_t newest = std::max(own_started, their_started);
    uint64_t& index = compared_[static_cast<size_t>(rank)];
    // Older messages may be overwritten; their readers have compared them.
    if (newest > kCollectiveRing) index = std::max(index, newest - kCollectiveRing);
    for (; index < std::min(own_started, their_started); ++index) {
      const Message& theirs = collective_of(rank, index);
      const Message& ours = collective_of(rank_, index);
      if (!agree(theirs, ours)) return fail_mismatch(rank, index, ours, theirs);
    }
  }
}

PeerWait Communicator::await_message(int from, const Message& own_message) {
  Channel& channel = board_.channel(from, rank_);
  const uint64_t index = channel.received;
  const PeerWait wait = look_at(from, own_message, [&] {
    if (channel.sent.load(std::memory_order_acquire) > index) return true;
    if (channel.wanted <= index) channel.wanted = index + 1;
    return false;
  });
  if (wait != PeerWait::kArrived) return wait;
  const Message& theirs = next_message(from);
  if (theirs.bytes == own_message.bytes && theirs.type == own_message.type) {
    return PeerWait::kArrived;
  }
  fail(ncclInvalidUsage, "message " + std::to_string(index) + " differs: rank " +
                             std::to_string(rank_) + " called " + describe(own_message) +
                             ", rank " + std::to_string(from) + " called " + describe(theirs));
  return PeerWait::kWaiting;
}

const Message& Communicator::collective_of(int rank, uint64_t index) const {
  return board_.slot(rank).collectives[index % kCollectiveRing];
}

const Message& Communicator::next_message(int from) const {
  const Channel& channel = board_.channel(from, rank_);
  return channel.messages[channel.received % kChannelRing];
}

const char* Communicator::data_of(int rank, const Message& message) const {
  const SharedMemory& arena =
      rank == rank_ ? arena_memory_ : peer_arenas_[static_cast<size_t>(rank)];
  return arena.data() + message.offset;
}

void Communicator::finish_collective() {
  own().consumed.store(own().consumed + 1, std::memory_order_release);
}

void Communicator::finish_receive(int from) {
  Channel& channel = board_.channel(from, rank_);
  channel.received.store(channel.received + 1, std::memory_order_release);
}

bool Communicator::is_demanded_by(int rank) const {
  const RankSlot& slot = board_.slot(rank);
  if (slot.demanded > own().started) return true;
  const Channel& outgoing = board_.channel(rank_, rank);
  if (outgoing.wanted > outgoing.sent) return true;
  const Channel& incoming = board_.channel(rank, rank_);
  return slot.is_starved != 0 &&
         (slot.started > own().consumed || incoming.sent > incoming.received);
}

Demand Communicator::demand() const {
  for (int rank = ranks_ - 1; rank >= 0; --rank) {
    if (is_demanded_by(rank)) return rank > rank_ ? Demand::kFromAbove : Demand::kFromBelow;
  }
  return Demand::kNone;
}

void Communicator::fail(ncclResult_t result, const std::string& text) {
  BoardHeader& header = board_.header();
  uint32_t none = 0;
  if (header.failure.compare_exchange_strong(none, static_cast<uint32_t>(result))) {
    std::snprintf(header.failure_text, sizeof header.failure_text, "%s", text.c_str());
    header.failure_text_ready = 1;
  }
  if (!told_failure_) failed_at_ = steady_clock::now();
  if (told_failure_.exchange(true)) return;
  set_last_error(failure_text());
  const std::string line = "nccl_failure comm=" + name() + " " + failure_text();
  streamguard_vgpu_log(line.c_str());
  std::fprintf(stderr, "streamguard: NCCL communicator %s: %s\n", name().c_str(),
               failure_text().c_str());
}

ncclResult_t Communicator::async_error() const {
  if (!board_memory_) return ncclSuccess;
  return static_cast<ncclResult_t>(board_.header().failure.load());
}

// A failure shows before its text is written: whoever sees it first must not tell an empty one.
// The rank that writes may die in between, so the wait ends.
std::string Communicator::failure_text() const {
  const auto deadline = steady_clock::now() + kFailureTextWait;
  while (async_error() != ncclSuccess && steady_clock::now() < deadline) {
    if (board_.header().failure_text_ready != 0) return board_.header().failure_text;
    std::this_thread::yield();
  }
  const std::lock_guard<std::mutex> guard(text_mutex_);
  return text_;
}

bool Communicator::has_given_up() {
  if (!told_failure_) fail(async_error(), failure_text());
  return steady_clock::now() - failed_at_.load() > kAbortGrace;
}

}  // namespace streamguard::vgpu::nccl
