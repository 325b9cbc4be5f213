// What an op does when its turn comes.
#ifndef STREAMGUARD_VGPU_RUNTIME_WORK_H_
#define STREAMGUARD_VGPU_RUNTIME_WORK_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace streamguard::vgpu {

class Stream;

// A place in a stream: the first `position` ops issued to it. Reached when that many completed.
// Positions never go back, also when a stream's object is used for a new stream, so a mark stays
// valid for ever.
struct Mark {
  Stream* stream = nullptr;
  uint64_t position = 0;
};

enum class Outcome {
  kDone,
  kWaiting,  // needs another process; ask again
  kStalled,  // as kWaiting, and that process will not move before this one's host does
};

// Two processes may each wait for a step that the other has queued and not run. Which of them
// yields must not depend on their speed: the lower rank does.
enum class Demand {
  kNone,
  kFromBelow,  // by lower ranks only: run it when they do not move by themselves
  kFromAbove,  // run it before waiting any longer
};

// An op that may need several attempts or carries state.
class Step {
 public:
  virtual ~Step() = default;
  // Never blocks and is never called under the runtime's lock.
  virtual Outcome run() = 0;
  // Whether another process cannot go on before this step has run.
  virtual Demand demand() const { return Demand::kNone; }
  // For reports about work that does not end.
  virtual std::string describe() const = 0;
};

// One recording of an event. The event holds the newest; waits and older queries keep theirs.
struct EventRecord {
  Mark mark;
  double completed_ms = 0;  // valid when the mark is reached
};

struct CopyRows {
  void* target = nullptr;
  const void* source = nullptr;
  size_t width = 0;  // bytes of a row
  size_t rows = 1;
  size_t target_pitch = 0;
  size_t source_pitch = 0;
  std::shared_ptr<std::vector<char>> staging;  // owns `source` when set
};

struct FillRows {
  void* target = nullptr;
  size_t width = 0;  // elements of a row
  size_t rows = 1;
  size_t pitch = 0;  // bytes
  uint32_t value = 0;
  int element_bytes = 1;
};

struct HostCall {
  cudaHostFn_t function = nullptr;
  void* argument = nullptr;
};

struct CompleteRecord {
  std::shared_ptr<EventRecord> record;
};

// std::monostate: nothing to compute (kernels without a host twin, waits).
using Work = std::variant<std::monostate, CopyRows, FillRows, HostCall, CompleteRecord,
                          std::shared_ptr<Step>>;

// True for work that takes no time and calls nobody: it may run under the lock.
bool is_instant(const Work& work);

// REQUIRES: the runtime's lock is not held, unless is_instant(work).
Outcome perform(Work& work);

// Monotonic clock of event timing.
double now_ms();

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_WORK_H_
