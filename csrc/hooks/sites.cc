#include "hooks/sites.h"

#include "hooks/python_state.h"

namespace streamguard::hooks {
namespace {

constexpr size_t kCacheSize = 1024;

struct CacheEntry {
  uint64_t hash;
  StackId stack;
};

thread_local std::array<CacheEntry, kCacheSize> recent_stacks{};

// 64 bits of a multiply-xorshift mix. Two stacks of one program sharing all of them would only
// exchange their printed lines; with 10^6 stacks the chance is below 10^-7.
uint64_t hash_of(const Frame* frames, int count) {
  uint64_t hash = 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(count + 1);
  for (int i = 0; i < count; ++i) {
    hash ^= reinterpret_cast<uint64_t>(frames[i].code) +
            (static_cast<uint64_t>(frames[i].instruction_offset_bytes) << 48);
    hash *= 0xD6E8FEB86659FD93ull;
    hash ^= hash >> 32;
  }
  return hash == 0 ? 1 : hash;
}

std::string text_of(PyObject* unicode) {
  const char* text = PyUnicode_AsUTF8(unicode);
  if (text == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return text;
}

}  // namespace

StackId StackTable::capture() {
  if (depth_ == 0) return 0;
  Frame frames[kMaxFrames];
  const int count = walk_frames(frames, depth_);
  if (count == 0) return 0;
  const uint64_t hash = hash_of(frames, count);
  CacheEntry& entry = recent_stacks[hash % kCacheSize];
  if (entry.hash == hash) return entry.stack;
  const StackId stack = intern(frames, count, hash);
  if (stack != 0) entry = {hash, stack};
  return stack;
}

StackId StackTable::intern(const Frame* frames, int count, uint64_t hash) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = by_hash_.find(hash);
    if (known != by_hash_.end()) return known->second;
  }
  // GIL before mutex: `resolve` runs with the GIL and takes the mutex.
  const ScopedGil gil;
  if (!gil.held()) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  const StackId next = static_cast<StackId>(stacks_.size() + 1);
  const auto [position, is_new] = by_hash_.emplace(hash, next);
  if (!is_new) return position->second;
  Stack& stack = stacks_.emplace_back();
  stack.count = count;
  for (int i = 0; i < count; ++i) {
    stack.frames[i] = frames[i];
    Py_INCREF(reinterpret_cast<PyObject*>(frames[i].code));
  }
  return next;
}

size_t StackTable::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stacks_.size();
}

std::vector<SourceLine> StackTable::resolve(StackId stack) const {
  std::vector<SourceLine> lines;
  if (stack == 0) return lines;
  Stack copy;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stack > stacks_.size()) return lines;
    copy = stacks_[stack - 1];
  }
  for (int i = 0; i < copy.count; ++i) {
    PyCodeObject* code = copy.frames[i].code;
    lines.push_back({text_of(code->co_filename),
                     PyCode_Addr2Line(code, copy.frames[i].instruction_offset_bytes),
                     text_of(code->co_qualname)});
  }
  return lines;
}

}  // namespace streamguard::hooks
