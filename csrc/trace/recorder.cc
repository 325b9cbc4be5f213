#include "trace/recorder.h"

namespace streamguard::trace {
namespace {

void reserve(Recorder::Chunk& chunk) {
  chunk.rows.reserve(Recorder::kMostRows);
  chunk.accesses.reserve(2 * Recorder::kMostRows);
}

}  // namespace

Recorder::Recorder() { reserve(chunk_); }

Recorder::Chunk Recorder::take(Chunk spare) {
  spare.rows.clear();
  spare.accesses.clear();
  spare.new_texts.clear();
  reserve(spare);
  std::swap(spare, chunk_);
  return spare;
}

std::uint32_t Recorder::number_of(std::string_view text) {
  const auto next = static_cast<std::uint32_t>(numbers_.size());
  const auto [position, is_new] = numbers_.emplace(text, next);
  if (is_new) chunk_.new_texts.emplace_back(text);
  return position->second;
}

}  // namespace streamguard::trace
