// Engine: events, host waits, messages.
#include "core/engine_parts.h"

namespace streamguard::core {
namespace {

// Freed ranges looked at after each host wait: the wait itself takes longer than this.
constexpr std::size_t kSweptPerHostWait = 256;

}  // namespace

void Engine::Parts::sweep(std::size_t budget) {
  retired.sweep(budget, [&](const ByteRange& range) { return detector.shadow().prune(range); });
}

void Engine::Parts::wait_on_host(HostThreadId thread, const Stream& on) {
  in_both([&](HappensBefore& each) {
    each.host_waits_for_stream(host_lane(thread), on.lane, next_op());
  });
  sweep(kSweptPerHostWait);
}

void Engine::Parts::wait_for_newest_op(HostThreadId thread, const Stream& on) {
  in_both([&](HappensBefore& each) {
    each.host_waits_for_newest_op(host_lane(thread), on.lane, next_op());
  });
  sweep(kSweptPerHostWait);
}

void Engine::record_event(HostThreadId thread, EventId event, StreamId stream) {
  Parts& parts = *parts_;
  Parts::Stream& on = parts.stream(stream);
  const auto [at, is_new] = parts.events.try_emplace(event);
  Parts::Event& recorded = at->second;
  if (is_new) {
    recorded.snapshot = parts.in_both([](HappensBefore& each) { return each.new_snapshot(); });
  }
  if (on.capture != kNoCapture) {
    GraphCapture& capture = parts.captures.at(on.capture);
    recorded.is_captured = true;
    recorded.capture = on.capture;
    recorded.slot = capture.add_record(*capture.branch_of(stream));
    return;
  }
  recorded.is_captured = false;
  // HB-03: the record is an op of its stream: issued by the host, fenced by the legacy stream.
  parts.in_both([&](HappensBefore& each) {
    each.order_issue(on.lane, parts.host_lane(thread), parts.next_op());
    each.take_snapshot(recorded.snapshot, on.lane, event);
    each.note_record(on.lane, event);
  });
}

WaitOutcome Engine::wait_event(HostThreadId thread, StreamId stream, EventId event) {
  Parts& parts = *parts_;
  Parts::Stream& on = parts.stream(stream);
  const auto found = parts.events.find(event);
  // HB-03: a wait for an event that was never recorded does nothing.
  if (found == parts.events.end()) return WaitOutcome::kNeverRecorded;
  const Parts::Event& waited = found->second;
  if (waited.is_captured) {
    const auto capture = parts.captures.find(waited.capture);
    const bool is_other = on.capture != kNoCapture && on.capture != waited.capture;
    if (capture == parts.captures.end() || is_other) return WaitOutcome::kCrossesCapture;
    if (on.capture != kNoCapture) {
      capture->second.add_wait(*capture->second.branch_of(stream), waited.slot);
      return WaitOutcome::kOrdered;
    }
    // HB-08: a stream that waits for a captured event is captured from then on.
    on.capture = waited.capture;
    capture->second.add_wait(capture->second.add_branch(stream), waited.slot);
    return WaitOutcome::kForked;
  }
  if (on.capture != kNoCapture) return WaitOutcome::kCrossesCapture;
  parts.in_both([&](HappensBefore& each) {
    each.order_issue(on.lane, parts.host_lane(thread), parts.next_op());
    each.wait_for_snapshot(on.lane, waited.snapshot, OrderEdge::Kind::kEventWait, parts.next_op());
  });
  return WaitOutcome::kOrdered;
}

void Engine::sync_stream(HostThreadId thread, StreamId stream) {
  const Parts::Stream& on = parts_->stream(stream);
  if (on.capture == kNoCapture) parts_->wait_on_host(thread, on);
}

WaitOutcome Engine::sync_event(HostThreadId thread, EventId event) {
  Parts& parts = *parts_;
  const auto found = parts.events.find(event);
  if (found == parts.events.end()) return WaitOutcome::kNeverRecorded;
  if (found->second.is_captured) return WaitOutcome::kCrossesCapture;
  // HB-04.
  parts.in_both([&](HappensBefore& each) {
    each.wait_for_snapshot(parts.host_lane(thread), found->second.snapshot,
                           OrderEdge::Kind::kHostWait, parts.next_op());
  });
  parts.sweep(kSweptPerHostWait);
  return WaitOutcome::kOrdered;
}

void Engine::sync_device(HostThreadId thread, DeviceId device) {
  Parts& parts = *parts_;
  parts.in_both([&](HappensBefore& each) {
    each.host_waits_for_device(parts.host_lane(thread), device, parts.next_op());
  });
  parts.sweep(kSweptPerHostWait);
}

WaitOutcome Engine::event_completed(HostThreadId thread, EventId event) {
  // HB-04: "done" says what a wait would have said.
  return sync_event(thread, event);
}

void Engine::stream_completed(HostThreadId thread, StreamId stream) { sync_stream(thread, stream); }

void Engine::destroy_event(EventId event) {
  Parts& parts = *parts_;
  const auto found = parts.events.find(event);
  if (found == parts.events.end()) return;
  parts.in_both([&](HappensBefore& each) { each.release_snapshot(found->second.snapshot); });
  parts.events.erase(found);
}

void Engine::post(HostThreadId thread, MessageId message) {
  Parts& parts = *parts_;
  const auto [at, is_new] = parts.messages.try_emplace(message);
  SnapshotId& posted = at->second;
  if (is_new) posted = parts.in_both([](HappensBefore& each) { return each.new_snapshot(); });
  parts.in_both(
      [&](HappensBefore& each) { each.take_snapshot(posted, parts.host_lane(thread), EventId{}); });
}

void Engine::take(HostThreadId thread, MessageId message) {
  Parts& parts = *parts_;
  const auto found = parts.messages.find(message);
  if (found == parts.messages.end()) return;
  // HB-06.
  parts.in_both([&](HappensBefore& each) {
    each.wait_for_snapshot(parts.host_lane(thread), found->second, OrderEdge::Kind::kMessage,
                           parts.next_op());
  });
}

}  // namespace streamguard::core
