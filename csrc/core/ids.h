// Strong identifiers of the engine. A bare integer never names a stream, an op or an allocation.
#ifndef STREAMGUARD_CORE_IDS_H_
#define STREAMGUARD_CORE_IDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

namespace streamguard::core {

// An integer that only compares with its own kind.
template <typename Tag, typename Integer>
struct StrongId {
  using integer_type = Integer;

  Integer value{};

  friend constexpr bool operator==(StrongId a, StrongId b) { return a.value == b.value; }
  friend constexpr bool operator!=(StrongId a, StrongId b) { return a.value != b.value; }
  friend constexpr bool operator<(StrongId a, StrongId b) { return a.value < b.value; }
};

// Dense, handed out by Engine::add_stream. kNoStream where there is none.
using StreamId = StrongId<struct StreamTag, std::uint32_t>;
inline constexpr StreamId kNoStream{0xffffffffu};

// Dense, handed out by Engine::add_host_thread.
using HostThreadId = StrongId<struct HostThreadTag, std::uint32_t>;
inline constexpr HostThreadId kNoHostThread{0xffffffffu};

// A lane is what has an order of its own: a stream, a host clock, a branch of a graph. Dense.
using LaneId = StrongId<struct LaneTag, std::uint32_t>;

// The caller's key of a CUDA event, for example its cudaEvent_t. Any value.
using EventId = StrongId<struct EventTag, std::uint64_t>;
// The caller's key of a thread-to-thread message. Any value.
using MessageId = StrongId<struct MessageTag, std::uint64_t>;
// The caller's key of a communicator. kNoCommunicator: the collective names none.
using CommunicatorId = StrongId<struct CommunicatorTag, std::uint64_t>;
inline constexpr CommunicatorId kNoCommunicator{0};

// Monotone per engine, first op is 1. kNoOp: nothing ran (a captured op, an op before the first).
using OpId = StrongId<struct OpTag, std::uint64_t>;
inline constexpr OpId kNoOp{0};

// Never reused within an engine, first allocation is 1. kNoAllocation: unknown memory.
using AllocationId = StrongId<struct AllocationTag, std::uint64_t>;
inline constexpr AllocationId kNoAllocation{0};

// One captured, executable graph. Handed out by Engine::end_capture.
using GraphId = StrongId<struct GraphTag, std::uint32_t>;
inline constexpr GraphId kNoGraph{0xffffffffu};

using DeviceId = StrongId<struct DeviceTag, std::int32_t>;

// Opaque to the engine: the caller's interned op name, and its interned call stack.
using LabelId = StrongId<struct LabelTag, std::uint32_t>;
using SiteId = StrongId<struct SiteTag, std::uint64_t>;

// Position on one lane: the n-th access-carrying op of the lane has epoch n. 0: before the first.
using Epoch = std::uint64_t;

}  // namespace streamguard::core

template <typename Tag, typename Integer>
struct std::hash<streamguard::core::StrongId<Tag, Integer>> {
  std::size_t operator()(streamguard::core::StrongId<Tag, Integer> id) const noexcept {
    return std::hash<Integer>{}(id.value);
  }
};

#endif  // STREAMGUARD_CORE_IDS_H_
