// One row of an op trace: docs/trace_format.md says what each column of a file means.
#ifndef STREAMGUARD_TRACE_ROW_H_
#define STREAMGUARD_TRACE_ROW_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "core/engine.h"

namespace streamguard::trace {

// Files hold the names below; the numbers exist within one process only.
enum class Verb : std::uint8_t {
  kAddStream,
  kAddThread,
  kAllocate,
  kFree,
  kFreeSynchronously,
  kForget,
  kRecordStream,
  kLaunch,
  kCollective,
  kHostAccess,
  kCopy,
  kMemset,
  kRecordEvent,
  kWaitEvent,
  kSyncStream,
  kSyncEvent,
  kSyncDevice,
  kEventCompleted,
  kStreamCompleted,
  kDestroyEvent,
  kPost,
  kTake,
  kBeginCapture,
  kEndCapture,
  kLaunchGraph,
  kDestroyGraph,
  kWatch,
  kEndWatches,
  kNameBytes,
  kEndNames,
  kForgetNames,
  kNameStream,
  kStep,
  kAnnounce,
  kNote,
  kChecksum,
};

inline constexpr std::array<std::string_view, 36> kVerbNames{
    "add_stream",
    "add_thread",
    "allocate",
    "free",
    "free_synchronously",
    "forget",
    "record_stream",
    "launch",
    "collective",
    "host_access",
    "copy",
    "memset",
    "record_event",
    "wait_event",
    "sync_stream",
    "sync_event",
    "sync_device",
    "event_completed",
    "stream_completed",
    "destroy_event",
    "post",
    "take",
    "begin_capture",
    "end_capture",
    "launch_graph",
    "destroy_graph",
    "watch",
    "end_watches",
    "name_bytes",
    "end_names",
    "forget_names",
    "name_stream",
    "step",
    "announce",
    "note",
    "checksum",
};
static_assert(kVerbNames[static_cast<std::size_t>(Verb::kChecksum)] == "checksum");

// What a row needs beside its numbers: a kind of stream, of memory, or of copy and collective.
enum class Kind : std::uint8_t {
  kNone,
  kLegacy,
  kBlocking,
  kNonBlocking,
  kDevice,
  kPinned,
  kPageable,
  kAsync,
  kSync,
};

inline constexpr std::array<std::string_view, 9> kKindNames{
    "", "legacy", "blocking", "nonblocking", "device", "pinned", "pageable", "async", "sync",
};
static_assert(kKindNames[static_cast<std::size_t>(Kind::kSync)] == "sync");

// Stands for "null" in the 32-bit columns.
inline constexpr std::uint32_t kNone = 0xffffffffu;

struct Row {
  Verb verb = Verb::kNote;
  Kind kind = Kind::kNone;
  std::uint32_t thread = kNone;
  std::uint32_t stream = kNone;
  std::uint32_t label = kNone;  // the caller's LabelId
  std::uint32_t text = kNone;   // the recorder's own text
  std::uint32_t accesses = 0;   // how many of the chunk's accesses belong to this row
  std::int32_t device = 0;
  std::uint64_t site = 0;
  std::uint64_t op = 0;  // number that the engine gave the op; 0: it is none, or was captured
  std::uint64_t id = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

}  // namespace streamguard::trace

#endif  // STREAMGUARD_TRACE_ROW_H_
