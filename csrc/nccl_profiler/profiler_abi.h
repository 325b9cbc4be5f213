// NCCL's interface to profiler plugins, as far as both sides of it need it here: versions 4 and 5.
//
// Source: NCCL 2.30.7, src/include/plugin/profiler; sizes and offsets were compared with its
// headers. Version 5 is the same from 2.28.3 on. Version 6 adds events of copy engines and leaves
// everything below where it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace streamguard::nccl_profiler {

using Result = int;  // ncclResult_t
constexpr Result kSuccess = 0;
constexpr Result kInternalError = 3;

/// Kinds of events; a plugin asks for some of them by a mask of these bits.
enum EventType : uint64_t {
  kGroup = 1 << 0,
  kCollective = 1 << 1,  // queued for launch; has the buffers
  kMessage = 1 << 2,     // the same of a send or receive
  kProxyOp = 1 << 3,
  kProxyStep = 1 << 4,
  kKernelChannel = 1 << 6,
  kNetwork = 1 << 7,
  kGroupCall = 1 << 8,  // from version 5 on, as all below
  kCollectiveCall = 1 << 9,
  kMessageCall = 1 << 10,
  kKernelLaunch = 1 << 11,
};

enum EventState : int { kGroupStartEnded = 23, kGroupEndBegan = 24 };

struct CollectiveV4 {
  uint64_t sequence;  // within the communicator, for each function
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

struct MessageV4 {
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
  uint8_t channels;
};

struct EventV4 {
  uint8_t type;
  void* parent;  // the group
  int rank;
  union {
    CollectiveV4 collective;
    MessageV4 message;
  };
};

struct EventV5 {
  uint64_t type;
  void* parent;  // the call, for what it queued
  int rank;
  union {
    struct {
      bool is_captured;
      int depth;
    } group_call;
    struct {
      const char* function;
      size_t count;
      const char* type;
      int root;
      void* stream;
      bool is_captured;
    } collective_call;
    struct {
      const char* function;
      size_t count;
      const char* type;
      void* stream;
      bool is_captured;
    } message_call;
    struct {
      void* stream;
    } kernel_launch;
    struct {
      CollectiveV4 call;
      void* group;
    } collective;
    struct {
      MessageV4 call;
      void* group;
    } message;
  };
};

static_assert(sizeof(EventV4) == 104 && sizeof(EventV5) == 112);
static_assert(offsetof(EventV4, collective.receive) == 48 && offsetof(EventV4, message.peer) == 56);
static_assert(offsetof(EventV5, collective_call.stream) == 56);
static_assert(offsetof(EventV5, message_call.stream) == 48);
static_assert(offsetof(EventV5, collective.call.protocol) == 96);
static_assert(offsetof(EventV5, collective.group) == 104);
static_assert(offsetof(EventV5, message.group) == 64);

/// ncclDebugLogger_t.
using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

/// What a plugin exports as `ncclProfiler_v4`.
struct PluginV4 {
  const char* name;
  Result (*init)(void** context, int* mask, const char* communicator_name, uint64_t communicator,
                 int nodes, int ranks, int rank, Logger logger);
  Result (*start)(void* context, void** handle, EventV4* event);
  Result (*stop)(void* handle);
  Result (*record_state)(void* handle, int state, void* arguments);
  Result (*finalize)(void* context);
};

/// What a plugin exports as `ncclProfiler_v5`, or, with more events, as `ncclProfiler_v6`.
struct PluginV5 {
  const char* name;
  Result (*init)(void** context, uint64_t communicator, int* mask, const char* communicator_name,
                 int nodes, int ranks, int rank, Logger logger);
  Result (*start)(void* context, void** handle, EventV5* event);
  Result (*stop)(void* handle);
  Result (*record_state)(void* handle, int state, void* arguments);
  Result (*finalize)(void* context);
};

}  // namespace streamguard::nccl_profiler
