#include "hooks/detector.h"

#include <utility>

namespace streamguard::hooks {

Detector& Detector::get() {
  static Detector& detector = *std::unique_ptr<Detector>(new Detector()).release();
  return detector;
}

void Detector::file_results() {
  const bool is_full = recorder_ != nullptr && recorder_->is_full();
  const bool has_news = state_->file_results() || state_->findings.has_unannounced();
  if (has_news || is_full) has_news_.store(true, std::memory_order_release);
}

std::vector<int> Detector::take_unannounced() {
  const Access access(*this);
  has_news_.store(false, std::memory_order_release);
  return access->take_unannounced();
}

void Detector::begin_anew() {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto state = std::make_unique<detection::DetectorState>();
  state->labels = std::move(state_->labels);
  state->free_label = state_->free_label;
  state_ = std::move(state);
  recorder_.reset();
  spare_chunk_ = {};
  labels_taken_ = 0;
  has_news_.store(false, std::memory_order_release);
}

void Detector::start_recording() {
  auto recorder = std::make_unique<trace::Recorder>();
  const std::lock_guard<std::mutex> lock(mutex_);
  recorder_ = std::move(recorder);
  state_->engine.record_to(recorder_.get());
}

void Detector::stop_recording() {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_->engine.record_to(nullptr);
  recorder_.reset();
}

Detector::Recorded Detector::take_recorded() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Recorded result;
  if (recorder_ == nullptr) return result;
  result.chunk = recorder_->take(std::move(spare_chunk_));
  for (; labels_taken_ < state_->labels.size(); ++labels_taken_) {
    result.new_labels.push_back(
        state_->labels.get(core::LabelId{static_cast<uint32_t>(labels_taken_)}));
  }
  return result;
}

void Detector::give_back(trace::Recorder::Chunk written) {
  const std::lock_guard<std::mutex> lock(mutex_);
  spare_chunk_ = std::move(written);
}

bool Detector::is_recorder_full() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return recorder_ != nullptr && recorder_->is_full();
}

}  // namespace streamguard::hooks
