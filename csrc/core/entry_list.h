// The accesses kept for one cell.
#ifndef STREAMGUARD_CORE_ENTRY_LIST_H_
#define STREAMGUARD_CORE_ENTRY_LIST_H_

#include <algorithm>
#include <cstdint>
#include <memory>

#include "core/ids.h"
#include "core/record_pool.h"

namespace streamguard::core {

// One access as its cell sees it. Lane, epoch and kind repeat the record's, so that the check of a
// cell touches no record unless it finds something.
struct Entry {
  Epoch epoch = 0;
  LaneId lane;
  RecordIndex record;
  bool is_write = false;
  bool is_partial = false;  // rows that leave bytes of the cell out: look at the record's region
  bool is_sole = false;     // no other cell holds the record, so that nothing need be counted

  friend bool operator==(const Entry& a, const Entry& b) { return a.record == b.record; }
};

// A vector of entries whose first few need no heap: most cells see two or three streams.
//
// Thread safety: none. Order is not kept on removal.
class EntryList {
 public:
  EntryList() = default;
  EntryList(const EntryList& other) { assign(other); }
  EntryList(EntryList&& other) noexcept { take(other); }
  EntryList& operator=(const EntryList& other) {
    if (this != &other) {
      size_ = 0;
      assign(other);
    }
    return *this;
  }
  EntryList& operator=(EntryList&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }

  std::uint32_t size() const { return size_; }
  bool is_empty() const { return size_ == 0; }
  Entry* begin() { return data(); }
  Entry* end() { return data() + size_; }
  const Entry* begin() const { return data(); }
  const Entry* end() const { return data() + size_; }
  Entry& operator[](std::uint32_t index) { return data()[index]; }

  void push_back(const Entry& entry) {
    if (size_ == capacity_) grow(capacity_ * 2);
    data()[size_++] = entry;
  }
  // Moves the last entry to `index`.
  void remove_at(std::uint32_t index) {
    data()[index] = data()[size_ - 1];
    --size_;
  }
  // Keeps the heap block, if there is one, for the next use.
  void clear() { size_ = 0; }

 private:
  static constexpr std::uint32_t kInline = 3;  // makes a cell two cache lines

  Entry* data() { return heap_ ? heap_.get() : inline_; }
  const Entry* data() const { return heap_ ? heap_.get() : inline_; }
  void assign(const EntryList& other) {
    if (other.size_ > capacity_) grow(other.size_);
    std::copy(other.begin(), other.end(), data());
    size_ = other.size_;
  }
  void take(EntryList& other) {
    size_ = other.size_;
    capacity_ = other.capacity_;
    std::copy(other.inline_, other.inline_ + kInline, inline_);
    heap_ = std::move(other.heap_);
    other.size_ = 0;
    other.capacity_ = kInline;
  }
  void grow(std::uint32_t capacity) {
    auto larger = std::make_unique<Entry[]>(capacity);
    std::copy(data(), data() + size_, larger.get());
    heap_ = std::move(larger);
    capacity_ = capacity;
  }

  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = kInline;
  Entry inline_[kInline];
  std::unique_ptr<Entry[]> heap_;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_ENTRY_LIST_H_
