// One rank's end of a communicator.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_COMMUNICATOR_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_COMMUNICATOR_H_

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../internal_api.h"
#include "../work.h"
#include "arena.h"
#include "board.h"
#include "profiler.h"

namespace streamguard::vgpu::nccl {

// Whether a wait for a peer can end.
enum class PeerWait { kArrived, kWaiting, kStalled };

// Transport is one-sided: a rank copies its input into its own arena and publishes it; peers read
// it when their end of the collective runs. So a rank's start is all others ever need of it, no
// step blocks, and a buffer written after the start changes no result.
//
// Thread safety: join, split and leave from the thread that calls NCCL; publish and read from the
// thread that executes ops, one at a time; failure and text from any thread.
class Communicator {
 public:
  // `profiled_name`: what the program calls it; "" for nothing.
  Communicator(const ncclUniqueId& id, int ranks, int rank, int device, std::string profiled_name);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Joining has three parts, so that one thread can join several ranks: each part waits for all
  // ranks' part before it.
  ncclResult_t announce();
  ncclResult_t map_peers();
  ncclResult_t complete();

  // Exchanges (color, key) with all ranks; the new communicator's identity, none for kNcclNoColor.
  struct SplitResult {
    ncclResult_t result;
    std::optional<ncclUniqueId> id;
    int ranks = 0;
    int rank = 0;
  };
  SplitResult split(int color, int key);

  // Ops issued and not run yet end without effect; peers see this rank as gone.
  void abort();
  // After the last op: peers that still wait for this rank fail.
  void leave();

  // -- for ops --
  // Publishes a collective's message; false when peers must read older ones first.
  bool publish(Message message, const void* data);
  bool send(int peer, Message message, const void* data);
  // Whether `rank` has started collective number `index`; fails the communicator when it cannot.
  PeerWait await_collective(int rank, uint64_t index, const Message& own);
  PeerWait await_message(int from, const Message& own);
  // Fails the communicator when a peer's collective differs from this rank's of the same number:
  // finds also what no result depends on, such as two ranks that both believe to be the root.
  void compare_with_peers();
  const Message& collective_of(int rank, uint64_t index) const;
  const Message& next_message(int from) const;
  const char* data_of(int rank, const Message& message) const;
  void finish_collective();
  void finish_receive(int from);

  // Records the first failure for all ranks and says it once on stderr.
  void fail(ncclResult_t result, const std::string& text);
  bool is_aborted() const { return aborted_; }
  ncclResult_t async_error() const;
  std::string failure_text() const;
  // True when a failed op has waited long enough for an abort and should end in an error.
  bool has_given_up();
  // Fails the communicator when this rank waits for ranks that are all stuck; an answer of
  // deadlock.h.
  int end_if_deadlocked(long deadlock_s);
  // A peer waits for something this rank has not done: run its next op.
  Demand demand() const;

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  int device() const { return device_; }
  uint64_t started() const { return own().started; }
  streamguard_vgpu_chain* chain() const { return chain_; }
  std::string name() const;
  // Whom to tell of calls; null before complete(), after leave(), and without a plugin.
  std::shared_ptr<ProfilerContext> profiler() const;

 private:
  struct Published {
    uint64_t number;
    int channel;  // receiving rank, -1 for a collective
    uint64_t offset;
    uint64_t bytes;
  };

  RankSlot& own() const { return board_.slot(rank_); }
  ncclResult_t wait_for_all(RankState state);
  bool stage(Message& message, const void* data);
  void retire_read_messages();
  bool is_read(const Published& published) const;
  void fail_mismatch(int peer, uint64_t index, const Message& own, const Message& theirs);
  std::string end_of(int peer);
  template <class HasArrived>
  PeerWait look_at(int peer, const Message& own, HasArrived has_arrived);
  bool is_demanded_by(int rank) const;
  bool waits_for(int rank) const;
  std::string pending_of(int rank) const;
  void set_text(const std::string& text);
  void set_profiler(std::shared_ptr<ProfilerContext> profiler);

  const ncclUniqueId id_;
  const int ranks_;
  const int rank_;
  const int device_;
  const std::string profiled_name_;
  SharedMemory board_memory_;
  Board board_;
  SharedMemory arena_memory_;
  Arena arena_;
  std::vector<SharedMemory> peer_arenas_;
  std::deque<Published> published_;
  std::vector<uint64_t> compared_;  // collectives compared with each peer's
  streamguard_vgpu_chain* chain_;
  uint64_t splits_ = 0;
  bool is_monitored_ = false;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> told_failure_{false};
  std::atomic<std::chrono::steady_clock::time_point> failed_at_;  // set before told_failure_
  std::chrono::steady_clock::time_point checked_alive_at_;
  mutable std::mutex text_mutex_;
  std::string text_;
  mutable std::mutex profiler_mutex_;
  std::shared_ptr<ProfilerContext> profiler_;
};

// A new identity; the board behind it lives until every rank has mapped it.
ncclResult_t make_unique_id(ncclUniqueId* id);

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_COMMUNICATOR_H_
