#include "hooks/announcer.h"

#include <memory>
#include <utility>

#include "cupti/heard_call.h"
#include "hooks/detector.h"
#include "hooks/python_state.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {
namespace {

using Sink = std::function<void(int)>;

// Guarded by the GIL. Never destroyed: it may hold a Python function, and outlives the interpreter.
Sink& current_sink() {
  static Sink& sink = *std::make_unique<Sink>().release();
  return sink;
}

// The same holds for this one.
std::function<void()>& current_drain() {
  static auto& drain = *std::make_unique<std::function<void()>>().release();
  return drain;
}

}  // namespace

void set_drain(std::function<void()> drain) { current_drain() = std::move(drain); }

void set_sink(std::function<void(int)> sink) { current_sink() = std::move(sink); }

void announce_news() {
  Detector& detector = Detector::get();
  if (!detector.has_news()) return;
  // Inside a callback of CUPTI the sink could not make a CUDA call: the next op tells.
  if (cupti::heard_call() != nullptr) return;
  ThreadState& thread = this_thread();
  if (thread.is_announcing) return;
  const ScopedGil gil;
  if (!gil.held()) return;
  thread.is_announcing = true;
  for (const int id : detector.take_unannounced()) {
    // A copy: the sink may replace or remove itself.
    const Sink sink = current_sink();
    if (sink) sink(id);
  }
  if (detector.is_recorder_full()) {
    const std::function<void()> drain = current_drain();
    if (drain) drain();
  }
  thread.is_announcing = false;
}

}  // namespace streamguard::hooks
