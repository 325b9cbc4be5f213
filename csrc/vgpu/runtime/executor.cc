#include "executor.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <queue>
#include <thread>

#include "api_log.h"
#include "errors.h"
#include "program_end.h"

namespace streamguard::vgpu {
namespace {

thread_local bool runs_op_body = false;

bool all_reached(const std::vector<Mark>& marks) {
  return std::all_of(marks.begin(), marks.end(), [](const Mark& m) { return is_reached(m); });
}

void add_unreached(std::vector<Mark>& marks, Stream* stream) {
  if (!stream->is_reached(stream->issued)) marks.push_back({stream, stream->issued});
}

}  // namespace

bool in_op_body() { return runs_op_body; }

// The ops that must run: of each stream a prefix of its queue.
struct Executor::Closure {
  struct Candidate {
    uint64_t rank;
    uint64_t sequence;
    Stream* stream;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : sequence > other.sequence;
    }
  };
  std::vector<Stream*> streams;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<Candidate>> candidates;

  void add_front(Stream* stream, SchedulePolicy& policy) {
    if (stream->completed >= stream->needed) return;
    const uint64_t sequence = stream->pending.front().sequence;
    const uint64_t rank = policy.has_ranks() ? policy.rank(*stream, sequence) : 0;
    candidates.push({rank, sequence, stream});
  }
};

Mark Executor::issue(Lock& lock, Stream& stream, Work work, std::vector<Mark> dependencies,
                     const char* name) {
  ++activity_;
  streams_.note_use(stream);
  std::vector<Mark>& unmet = dependencies;
  unmet.erase(std::remove_if(unmet.begin(), unmet.end(),
                             [&](const Mark& m) { return m.stream == &stream || is_reached(m); }),
              unmet.end());
  // Legacy fences: the legacy default stream waits for blocking streams, and they for it.
  if (stream.kind == StreamKind::kLegacy) {
    for (Stream* other : streams_.of_device(stream.device)) {
      if (other->kind == StreamKind::kBlocking) add_unreached(unmet, other);
    }
  } else if (stream.kind == StreamKind::kBlocking) {
    add_unreached(unmet, streams_.legacy(stream.device));
  }

  const Mark mark{&stream, ++stream.issued};
  const uint64_t sequence = next_sequence_++;
  const bool is_wanted = policy_->runs_at_issue(stream, sequence);
  const bool at_once = is_wanted && !stream.is_held && !has_abandoned_work();
  if (is_wanted && stream.is_held) stream.wanted_later = mark.position;
  if (at_once && unmet.empty() && stream.pending.empty() && is_instant(work)) {
    perform(work);
    ++stream.completed;
    return mark;
  }

  const auto* step = std::get_if<std::shared_ptr<Step>>(&work);
  const bool may_wait = step != nullptr;
  if (may_wait) remember_step(mark, *step);
  stream.pending.push_back({sequence, std::move(work), std::move(unmet), name});
  ++pending_;
  if (at_once) {
    want(stream, mark.position);
    continue_wanted(lock);
    if (!is_reached(mark)) settle(lock, mark, may_wait);
  }
  return mark;
}

void Executor::release(Lock& lock, Stream& stream, Stream* first) {
  if (!stream.is_held) return;
  if (first != nullptr) advance(lock, tail_marks(*first));
  stream.is_held = false;
  if (stream.is_reached(stream.wanted_later)) return;
  want(stream, stream.wanted_later);
  continue_wanted(lock);
}

void Executor::remember_step(const Mark& mark, std::shared_ptr<Step> step) {
  constexpr size_t kFewSteps = 64;
  if (steps_.size() >= forget_steps_at_) {
    forget_reached_steps();
    forget_steps_at_ = std::max(kFewSteps, 2 * steps_.size());
  }
  steps_.push_back({mark, std::move(step)});
}

void Executor::forget_reached_steps() {
  steps_.erase(std::remove_if(steps_.begin(), steps_.end(),
                              [](const auto& entry) { return is_reached(entry.first); }),
               steps_.end());
}

void Executor::want(Stream& stream, uint64_t position) {
  if (stream.wanted <= stream.completed) wanted_.push_back(&stream);
  stream.wanted = std::max(stream.wanted, position);
  wants_changed_ = true;
}

// At issue the schedule gives a collective, and what comes after it, the time its peers need, as a
// fast GPU would. It gives up when a peer waits for this process in turn; then the op runs when a
// host wait forces it, and not whenever the peer comes, which would depend on its speed.
void Executor::settle(Lock& lock, const Mark& mark, bool waits_for_turn) {
  for (int attempt = 0; !is_reached(mark); ++attempt) {
    last_wait_ = Outcome::kWaiting;
    if (!advance(lock, {mark})) {
      // The thread that has the turn may need this one to return.
      if (!waits_for_turn) break;
    } else if (last_wait_ == Outcome::kStalled && !is_reached(mark)) {
      for (Stream* stream : wanted_) stream->wanted = 0;
      wanted_.clear();
      break;
    }
    if (is_reached(mark)) break;
    yield_to_peers(lock, {mark}, attempt);
    if (!is_reached(mark)) sleep_unlocked(lock, attempt);
  }
  if (wants_changed_) continue_wanted(lock);
}

void Executor::run_demanded(Lock& lock, Demand least) {
  std::vector<Mark> demanded;
  for (const auto& [mark, step] : pending_steps()) {
    if (!is_reached(mark) && step->demand() >= least) demanded.push_back(mark);
  }
  for (const Mark& mark : demanded) {
    if (is_reached(mark)) continue;
    if (log_enabled()) {
      log_line("demanded stream=%d op=%llu", mark.stream->index,
               static_cast<unsigned long long>(mark.position));
    }
    advance(lock, {mark});
  }
}

// What a peer did before it asked for a step must be seen first, hence the second look.
void Executor::yield_to_peers(Lock& lock, const std::vector<Mark>& targets, int attempt) {
  constexpr int kPatience = 4000;  // attempts: two seconds or more
  const bool moves_alone = last_wait_ != Outcome::kStalled && attempt < kPatience;
  const Demand least = moves_alone ? Demand::kFromAbove : Demand::kFromBelow;
  const std::vector<std::pair<Mark, std::shared_ptr<Step>>> steps = pending_steps();
  const bool asked = std::any_of(steps.begin(), steps.end(), [&](const auto& entry) {
    return !is_reached(entry.first) && entry.second->demand() >= least;
  });
  if (!asked) return;
  const uint64_t before = executed_;
  advance(lock, targets);
  if (executed_ == before) run_demanded(lock, least);
}

void Executor::continue_wanted(Lock& lock) {
  while (wants_changed_ || !wanted_.empty()) {
    wants_changed_ = false;
    std::vector<Mark> targets;
    for (Stream* stream : wanted_) targets.push_back({stream, stream->wanted});
    if (!advance(lock, targets)) return;  // whoever has the turn sees wants_changed_
    wanted_.erase(std::remove_if(wanted_.begin(), wanted_.end(),
                                 [](Stream* s) { return s->completed >= s->wanted; }),
                  wanted_.end());
    if (!wants_changed_) return;
  }
}

bool Executor::advance(Lock& lock, const std::vector<Mark>& targets) {
  assert(lock.owns_lock());
  if (all_reached(targets) || has_abandoned_work()) return true;
  if (turn_taken_) {
    wants_changed_ = wants_changed_ || !wanted_.empty();
    return false;
  }
  turn_taken_ = true;
  Closure closure;
  collect(closure, targets);
  run_closure(lock, closure);
  release_turn(lock);
  return true;
}

void Executor::release_turn(Lock&) {
  turn_taken_ = false;
  turn_changed_.notify_all();
}

void Executor::collect(Closure& closure, const std::vector<Mark>& targets) {
  std::vector<Mark> work(targets);
  while (!work.empty()) {
    const Mark mark = work.back();
    work.pop_back();
    if (is_reached(mark)) continue;
    Stream& stream = *mark.stream;
    const uint64_t from = std::max(stream.completed, stream.needed);
    if (mark.position <= from) continue;
    if (stream.needed <= stream.completed) closure.streams.push_back(&stream);
    stream.needed = mark.position;
    for (uint64_t position = from + 1; position <= mark.position; ++position) {
      const std::vector<Mark>& dependencies = stream.op_at(position).dependencies;
      work.insert(work.end(), dependencies.begin(), dependencies.end());
    }
  }
}

void Executor::run_closure(Lock& lock, Closure& closure) {
  for (Stream* stream : closure.streams) closure.add_front(stream, *policy_);
  while (!closure.candidates.empty()) {
    Stream& stream = *closure.candidates.top().stream;
    closure.candidates.pop();
    const std::vector<Mark>& dependencies = stream.pending.front().dependencies;
    const auto unmet = std::find_if(dependencies.begin(), dependencies.end(),
                                    [](const Mark& m) { return !is_reached(m); });
    if (unmet != dependencies.end()) {
      unmet->stream->parked.push_back(&stream);
      continue;
    }
    const Outcome outcome = run_front(lock, stream);
    if (outcome != Outcome::kDone) {
      last_wait_ = outcome;
      // What else is ready comes after it in the schedule: it stays, or the order would depend on
      // how fast the peer is. Only a peer that will not move lets the others pass.
      if (outcome == Outcome::kWaiting) break;
      continue;
    }
    closure.add_front(&stream, *policy_);
    for (Stream* waiter : stream.parked) closure.add_front(waiter, *policy_);
    stream.parked.clear();
  }
  for (Stream* stream : closure.streams) {
    stream->needed = 0;
    stream->parked.clear();
  }
}

Outcome Executor::run_front(Lock& lock, Stream& stream) {
  // Others only append while the lock is released: references into a deque stay valid.
  Work& work = stream.pending.front().work;
  Outcome outcome = Outcome::kDone;
  if (is_instant(work)) {
    outcome = perform(work);
  } else {
    lock.unlock();
    runs_op_body = true;
    outcome = perform(work);
    runs_op_body = false;
    lock.lock();
  }
  if (outcome != Outcome::kDone) return outcome;
  Work finished = std::move(work);
  stream.pending.pop_front();
  ++stream.completed;
  --pending_;
  ++executed_;
  if (log_enabled()) {
    log_line("ran stream=%d op=%llu", stream.index,
             static_cast<unsigned long long>(stream.completed));
  }
  turn_changed_.notify_all();
  if (!is_instant(finished)) {
    // Destructors of steps may call back (graphs, user objects): not under the lock.
    lock.unlock();
    finished = std::monostate{};
    lock.lock();
  }
  return outcome;
}

void Executor::force(Lock& lock, const std::vector<Mark>& targets) {
  ++activity_;
  ++host_waits_;
  int attempt = 0;
  // A dead device runs nothing more: the caller answers with its error.
  while (!all_reached(targets) && sticky_error() == cudaSuccess && !has_abandoned_work()) {
    last_wait_ = Outcome::kWaiting;
    if (!advance(lock, targets)) {
      turn_changed_.wait(lock);
      continue;
    }
    if (wants_changed_) continue_wanted(lock);
    if (all_reached(targets)) break;
    yield_to_peers(lock, targets, attempt);
    if (!all_reached(targets)) sleep_unlocked(lock, attempt++);
  }
  if (wants_changed_) continue_wanted(lock);
  --host_waits_;
}

bool Executor::restart(Lock& lock, std::unique_ptr<SchedulePolicy> policy) {
  force(lock, all_marks());
  if (pending_ != 0 || turn_taken_) return false;
  policy_ = std::move(policy);
  streams_.restart_indices();
  next_sequence_ = 1;
  return true;
}

// Sleeps even at first: a yield on a crowded machine costs the turns of all others, a sleep of any
// length is followed by this thread's turn.
void Executor::sleep_unlocked(Lock& lock, int attempt) {
  constexpr int kFirst = 50;  // attempts with the shortest sleep
  constexpr int kLongestSleep_us = 500;
  static thread_local const int thread = static_cast<int>(syscall(SYS_gettid));
  waiting_threads_.insert(thread);
  lock.unlock();
  std::this_thread::sleep_for(
      std::chrono::microseconds(std::clamp(10 * (attempt - kFirst), 1, kLongestSleep_us)));
  lock.lock();
  waiting_threads_.erase(thread);
}

std::vector<Mark> Executor::tail_marks(Stream& stream) {
  std::vector<Mark> marks;
  add_unreached(marks, &stream);
  if (stream.kind == StreamKind::kLegacy) {
    for (Stream* other : streams_.of_device(stream.device)) {
      if (other->kind == StreamKind::kBlocking) add_unreached(marks, other);
    }
  }
  return marks;
}

std::vector<Mark> Executor::device_marks(int device) const {
  std::vector<Mark> marks;
  for (Stream* stream : streams_.of_device(device)) add_unreached(marks, stream);
  return marks;
}

std::vector<Mark> Executor::all_marks() const {
  std::vector<Mark> marks;
  for (const auto& stream : streams_.all()) add_unreached(marks, stream.get());
  return marks;
}

std::vector<std::pair<Mark, std::shared_ptr<Step>>> Executor::pending_steps() {
  forget_reached_steps();
  return steps_;
}

}  // namespace streamguard::vgpu
