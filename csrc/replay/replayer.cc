#include "replay/replayer.h"

#include <limits>

namespace streamguard::replay {
namespace {

using core::ByteRange;
using core::EventId;
using core::HostThreadId;
using core::StreamId;
using trace::Kind;
using trace::kNone;
using trace::Verb;

// More than any program has; a vector clock has one entry for each.
constexpr std::uint32_t kMostStreams = 1u << 16;

std::string text_of(Verb verb) {
  return std::string(trace::kVerbNames[static_cast<std::size_t>(verb)]);
}

std::optional<core::StreamKind> stream_kind(Kind kind) {
  if (kind == Kind::kLegacy) return core::StreamKind::kLegacy;
  if (kind == Kind::kBlocking) return core::StreamKind::kBlocking;
  if (kind == Kind::kNonBlocking) return core::StreamKind::kNonBlocking;
  return std::nullopt;
}

std::optional<core::MemoryKind> memory_kind(Kind kind) {
  if (kind == Kind::kDevice) return core::MemoryKind::kDevice;
  if (kind == Kind::kPinned) return core::MemoryKind::kPinned;
  if (kind == Kind::kPageable) return core::MemoryKind::kPageable;
  return std::nullopt;
}

// Whether the last byte's address fits in 64 bits.
bool fits(const core::Region& region) {
  if (region.is_empty()) return true;
  std::uint64_t last_row = 0;
  if (__builtin_mul_overflow(region.rows - 1, region.pitch, &last_row)) return false;
  std::uint64_t last = 0;
  if (__builtin_add_overflow(region.begin, last_row, &last)) return false;
  return !__builtin_add_overflow(last, region.width, &last);
}

struct Needs {
  bool thread = false;
  bool stream = false;
  bool text = false;
};

Needs needs_of(Verb verb) {
  switch (verb) {
    case Verb::kAddStream:
    case Verb::kAddThread:
    case Verb::kForget:
    case Verb::kDestroyEvent:
    case Verb::kDestroyGraph:
    case Verb::kEndWatches:
    case Verb::kEndNames:
    case Verb::kForgetNames:
    case Verb::kStep:
    case Verb::kAnnounce:
    case Verb::kChecksum:
      return {false, false, false};
    case Verb::kAllocate:
    case Verb::kSyncEvent:
    case Verb::kSyncDevice:
    case Verb::kEventCompleted:
    case Verb::kPost:
    case Verb::kTake:
      return {true, false, false};
    case Verb::kFree:
    case Verb::kFreeSynchronously:
    case Verb::kHostAccess:
      return {true, false, true};
    case Verb::kLaunch:
    case Verb::kCollective:
    case Verb::kCopy:
    case Verb::kMemset:
      return {true, true, true};
    case Verb::kRecordEvent:
    case Verb::kWaitEvent:
    case Verb::kSyncStream:
    case Verb::kStreamCompleted:
    case Verb::kLaunchGraph:
      return {true, true, false};
    case Verb::kRecordStream:
    case Verb::kBeginCapture:
    case Verb::kEndCapture:
      return {false, true, false};
    case Verb::kWatch:
    case Verb::kNameBytes:
    case Verb::kNameStream:
    case Verb::kNote:
      return {false, false, true};
  }
  return {};
}

}  // namespace

struct Replayer::View {
  const Batch& batch;
  std::size_t at;

  Verb verb() const { return static_cast<Verb>(batch.verb[at]); }
  Kind kind() const { return static_cast<Kind>(batch.kind[at]); }
  HostThreadId thread() const { return HostThreadId{batch.thread[at]}; }
  StreamId stream() const { return StreamId{batch.stream[at]}; }
  core::DeviceId device() const { return core::DeviceId{batch.device[at]}; }
  std::uint64_t id() const { return batch.id[at]; }
  ByteRange bytes() const { return {batch.begin[at], batch.end[at]}; }
  std::size_t access_begin() const { return static_cast<std::size_t>(batch.access_offsets[at]); }
  std::size_t access_end() const { return static_cast<std::size_t>(batch.access_offsets[at + 1]); }
};

Replayer::Result Replayer::feed(const Batch& batch, std::size_t first_row) {
  for (std::size_t at = first_row; at < batch.rows; ++at) {
    const View row{batch, at};
    if (Check error = feed_row(row)) return {Stop::kError, at, std::move(*error)};
    state_.file_results([this](const core::Race& race) {
      if (keeps_races_) races_.push_back(race);
    });
    if (row.verb() == Verb::kAnnounce) return {Stop::kAnnounced, at + 1, {}};
    if (row.verb() == Verb::kNameBytes) return {Stop::kNamed, at + 1, {}};
    if (row.verb() == Verb::kNote) return {Stop::kNote, at + 1, {}};
  }
  return {Stop::kEnd, batch.rows, {}};
}

Replayer::Check Replayer::feed_row(const View& row) {
  if (static_cast<std::size_t>(row.verb()) >= trace::kVerbNames.size()) {
    return "the op is none that this version knows";
  }
  if (Check error = check_ids(row)) return error;
  switch (row.verb()) {
    case Verb::kAddStream:
      return add_stream(row);
    case Verb::kAddThread:
      if (row.thread().value != thread_count_) {
        return "threads are numbered in order: " + std::to_string(thread_count_) + " was expected";
      }
      state_.engine.add_host_thread();
      ++thread_count_;
      return std::nullopt;
    case Verb::kAllocate:
    case Verb::kFree:
    case Verb::kFreeSynchronously:
    case Verb::kForget:
    case Verb::kRecordStream:
      return feed_memory(row);
    case Verb::kLaunch:
    case Verb::kCollective:
    case Verb::kHostAccess:
    case Verb::kCopy:
    case Verb::kMemset:
      return feed_access(row);
    case Verb::kRecordEvent:
    case Verb::kWaitEvent:
    case Verb::kSyncStream:
    case Verb::kSyncEvent:
    case Verb::kSyncDevice:
    case Verb::kEventCompleted:
    case Verb::kStreamCompleted:
    case Verb::kDestroyEvent:
    case Verb::kPost:
    case Verb::kTake:
      return feed_order(row);
    case Verb::kBeginCapture:
    case Verb::kEndCapture:
    case Verb::kLaunchGraph:
    case Verb::kDestroyGraph:
      return feed_graph(row);
    case Verb::kWatch:
    case Verb::kEndWatches:
    case Verb::kNameBytes:
    case Verb::kEndNames:
    case Verb::kForgetNames:
    case Verb::kNameStream:
    case Verb::kStep:
      return feed_naming(row);
    case Verb::kAnnounce:  // the caller takes them
    case Verb::kNote:
    case Verb::kChecksum:
      return std::nullopt;
  }
  return std::nullopt;
}

Replayer::Check Replayer::check_ids(const View& row) const {
  const Needs needs = needs_of(row.verb());
  if (needs.thread && row.thread().value >= thread_count_) return "its thread does not exist";
  if (needs.stream && row.stream().value >= stream_count_) return "its stream does not exist";
  if (needs.text && row.batch.name[row.at] >= texts_.size()) return "it has no name";
  const std::uint32_t group = row.batch.group[row.at];
  if (group != kNone && group >= texts_.size()) return "its group has no name";
  if (row.batch.site[row.at] > site_count_ || row.batch.forward_site[row.at] > site_count_) {
    return "its source site does not exist";
  }
  if (row.bytes().end < row.bytes().begin) return "its bytes end before they begin";
  return std::nullopt;
}

Replayer::Check Replayer::add_stream(const View& row) {
  const auto kind = stream_kind(row.kind());
  if (!kind) return "its kind is no kind of stream";
  if (row.stream().value != stream_count_ || stream_count_ == kMostStreams) {
    return "streams are numbered in order: " + std::to_string(stream_count_) + " was expected";
  }
  if (state_.streams.find(row.device().value, row.id())) return "this stream was added already";
  if (*kind == core::StreamKind::kLegacy && !legacy_devices_.insert(row.device().value).second) {
    return "its device has a legacy default stream already";
  }
  state_.streams.find_or_add(row.device().value, row.id(), *kind);
  ++stream_count_;
  return std::nullopt;
}

core::OpInfo Replayer::info_of(const View& row) {
  const bool is_collective = row.verb() == Verb::kCollective;
  const bool is_async = row.kind() == Kind::kAsync;
  const std::uint32_t name = row.batch.name[row.at];
  const std::uint32_t group = row.batch.group[row.at];
  const auto [known, is_new] = labels_.try_emplace({name, group, is_collective, is_async});
  if (is_new) {
    const detection::Label label{texts_[name], is_collective, is_collective && is_async,
                                 group == kNone ? std::string() : texts_[group]};
    known->second = state_.labels.intern(label);
  }
  const std::uint64_t forward = row.batch.forward_site[row.at];
  return {known->second, core::SiteId{row.batch.site[row.at] | forward << 32}};
}

Replayer::Check Replayer::check_op(const View& row, core::OpId op) const {
  const std::uint64_t recorded = row.batch.op[row.at];
  if (op.value == recorded) return std::nullopt;
  return "this " + text_of(row.verb()) + " is op " + std::to_string(op.value) +
         " here and was op " + std::to_string(recorded) + " in the program";
}

Replayer::Check Replayer::feed_memory(const View& row) {
  trace::RecordedEngine& engine = state_.engine;
  const core::AllocationId block{row.id()};
  switch (row.verb()) {
    case Verb::kAllocate: {
      const auto kind = memory_kind(row.kind());
      if (!kind) return "its kind is no kind of memory";
      const bool has_owner = row.stream() != core::kNoStream;
      if (has_owner && row.stream().value >= stream_count_) return "its stream does not exist";
      if (engine.allocate(row.thread(), row.bytes(), *kind, row.stream()) == block) {
        return std::nullopt;
      }
      return "the engine gives this block another number";
    }
    case Verb::kFree:
      return check_op(row, engine.free(row.thread(), block, info_of(row)));
    case Verb::kFreeSynchronously:
      return check_op(row, engine.free_synchronously(row.thread(), block, info_of(row)));
    case Verb::kForget:
      engine.forget(row.bytes());
      return std::nullopt;
    default:
      engine.record_stream(block, row.stream());
      return std::nullopt;
  }
}

Replayer::Check Replayer::read_accesses(const View& row) {
  accesses_.clear();
  for (std::size_t at = row.access_begin(); at < row.access_end(); ++at) {
    const Batch& batch = row.batch;
    const core::Region region{batch.access_begin[at], batch.access_width[at],
                              batch.access_pitch[at], batch.access_rows[at]};
    if (!fits(region)) return "an access ends behind the last address";
    const bool is_write = batch.access_is_write[at] != 0;
    accesses_.push_back({region, is_write ? core::AccessKind::kWrite : core::AccessKind::kRead,
                         core::AllocationId{batch.access_allocation[at]}});
  }
  return std::nullopt;
}

Replayer::Check Replayer::feed_access(const View& row) {
  if (Check error = read_accesses(row)) return error;
  trace::RecordedEngine& engine = state_.engine;
  const core::OpInfo info = info_of(row);
  const auto mode = row.kind() == Kind::kSync ? core::CopyMode::kSync : core::CopyMode::kAsync;
  switch (row.verb()) {
    case Verb::kLaunch:
      return check_op(row, engine.launch(row.thread(), row.stream(), accesses_, info));
    case Verb::kCollective:
      return check_op(row, engine.collective(row.thread(), row.stream(),
                                             core::CommunicatorId{row.id()}, accesses_, info));
    case Verb::kHostAccess:
      return check_op(row, engine.host_access(row.thread(), accesses_, info));
    case Verb::kCopy:
      return check_op(row, engine.copy(row.thread(), row.stream(), accesses_, mode, info));
    default:
      return check_op(row, engine.memset(row.thread(), row.stream(), accesses_, mode, info));
  }
}

Replayer::Check Replayer::feed_order(const View& row) {
  trace::RecordedEngine& engine = state_.engine;
  switch (row.verb()) {
    case Verb::kRecordEvent:
      engine.record_event(row.thread(), EventId{row.id()}, row.stream());
      break;
    case Verb::kWaitEvent:
      engine.wait_event(row.thread(), row.stream(), EventId{row.id()});
      break;
    case Verb::kSyncStream:
      engine.sync_stream(row.thread(), row.stream());
      break;
    case Verb::kSyncEvent:
      engine.sync_event(row.thread(), EventId{row.id()});
      break;
    case Verb::kSyncDevice:
      engine.sync_device(row.thread(), row.device());
      break;
    case Verb::kEventCompleted:
      engine.event_completed(row.thread(), EventId{row.id()});
      break;
    case Verb::kStreamCompleted:
      engine.stream_completed(row.thread(), row.stream());
      break;
    case Verb::kDestroyEvent:
      engine.destroy_event(EventId{row.id()});
      break;
    case Verb::kPost:
      engine.post(row.thread(), core::MessageId{row.id()});
      break;
    default:
      engine.take(row.thread(), core::MessageId{row.id()});
      break;
  }
  return std::nullopt;
}

Replayer::Check Replayer::feed_graph(const View& row) {
  trace::RecordedEngine& engine = state_.engine;
  const bool names_graph = row.verb() == Verb::kLaunchGraph || row.verb() == Verb::kDestroyGraph;
  if (names_graph && row.id() > std::numeric_limits<std::uint32_t>::max()) {
    return "its graph does not exist";
  }
  const core::GraphId graph{static_cast<std::uint32_t>(row.id())};
  switch (row.verb()) {
    case Verb::kBeginCapture:
      if (engine.is_capturing(row.stream())) return "its stream captures already";
      engine.begin_capture(row.stream());
      return std::nullopt;
    case Verb::kEndCapture:
      if (engine.end_capture(row.stream()).value_or(core::kNoGraph).value == row.id()) {
        return std::nullopt;
      }
      return "the engine gives this graph another number";
    case Verb::kLaunchGraph:
      if (engine.is_capturing(row.stream())) return "its stream captures";
      return check_op(row, engine.launch_graph(row.thread(), graph, row.stream()));
    default:
      engine.destroy_graph(graph);
      return std::nullopt;
  }
}

Replayer::Check Replayer::feed_naming(const View& row) {
  switch (row.verb()) {
    case Verb::kWatch:
      state_.watch(row.bytes(), texts_[row.batch.name[row.at]]);
      return std::nullopt;
    case Verb::kEndWatches:
      state_.end_watches(row.bytes());
      return std::nullopt;
    case Verb::kNameBytes:
      state_.name_bytes(row.bytes(), texts_[row.batch.name[row.at]], core::OpId{row.id()});
      return std::nullopt;
    case Verb::kEndNames:  // of version 1, which did not tie a name to its block
      return std::nullopt;
    case Verb::kForgetNames:
      state_.forget_names(row.bytes());
      return std::nullopt;
    case Verb::kNameStream:
      state_.streams.set_role(row.device().value, row.id(), texts_[row.batch.name[row.at]]);
      return std::nullopt;
    default:
      state_.set_step(static_cast<std::int64_t>(row.id()));
      return std::nullopt;
  }
}

}  // namespace streamguard::replay
