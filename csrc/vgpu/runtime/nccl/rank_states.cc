// Communicator: who waits for whom, when nothing moves any more.
#include "../deadlock.h"
#include "communicator.h"
#include "message_text.h"

namespace streamguard::vgpu::nccl {

// Sends end when they are staged, so only collectives and receives wait for others.
bool Communicator::waits_for(int rank) const {
  if (rank == rank_) return false;
  const Channel& incoming = board_.channel(rank, rank_);
  return own().demanded > board_.slot(rank).started || incoming.wanted > incoming.sent;
}

// What a rank has started and not ended, as far as the board tells.
std::string Communicator::pending_of(int rank) const {
  const RankSlot& slot = board_.slot(rank);
  const uint64_t done = slot.consumed;
  std::string text = "rank " + std::to_string(rank) + ": ";
  const size_t begin = text.size();
  if (slot.started > done) {
    text +=
        "collective " + std::to_string(done) + " pending, " + describe(collective_of(rank, done));
  }
  for (int from = 0; from < ranks_; ++from) {
    const Channel& channel = board_.channel(from, rank);
    if (channel.wanted <= channel.sent) continue;
    if (text.size() > begin) text += "; ";
    text += "message " + std::to_string(channel.received) + " from rank " + std::to_string(from) +
            " pending";
  }
  if (text.size() == begin) {
    text += "nothing pending here, " + std::to_string(done) + " collectives done";
  }
  return text;
}

int Communicator::end_if_deadlocked(long deadlock_s) {
  if (aborted_ || async_error() != ncclSuccess) return kWaitsForNobody;
  bool waits = false;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!waits_for(rank)) continue;
    waits = true;
    if (board_.slot(rank).idleness != static_cast<uint32_t>(Idleness::kStuck)) {
      return kPeersMayMove;
    }
  }
  if (!waits) return kWaitsForNobody;
  std::string text = "deadlock: nothing ran for " + std::to_string(deadlock_s) +
                     " s on the ranks that wait for each other";
  for (int rank = 0; rank < ranks_; ++rank) text += "\n  " + pending_of(rank);
  fail(ncclSystemError, text);
  return kDeadlocked;
}

}  // namespace streamguard::vgpu::nccl
