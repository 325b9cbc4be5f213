// Memory for tables that may hold a million entries.
#ifndef STREAMGUARD_CORE_LARGE_PAGES_H_
#define STREAMGUARD_CORE_LARGE_PAGES_H_

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace streamguard::core {

// Asks the kernel for large pages under big tables. A table of a million cells spans 30,000 small
// pages; an access to it then misses the translation buffer as well as the cache, which about
// doubles what it waits for. Where the kernel gives none, only that time is lost.
template <typename T>
struct LargePages {
  using value_type = T;

  LargePages() = default;
  template <typename U>
  LargePages(const LargePages<U>&) {}  // NOLINT: allocators convert

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kWorthwhile) return std::allocator<T>().allocate(count);
    const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
    void* memory = std::aligned_alloc(kPage, whole);
    if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    madvise(memory, whole, MADV_HUGEPAGE);
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    if (count * sizeof(T) < kWorthwhile) {
      std::allocator<T>().deallocate(memory, count);
    } else {
      std::free(memory);
    }
  }

  friend bool operator==(const LargePages&, const LargePages&) { return true; }
  friend bool operator!=(const LargePages&, const LargePages&) { return false; }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  // From here on less than a quarter of a page more is taken than asked for.
  static constexpr std::size_t kWorthwhile = 4 * kPage;
};

template <typename T>
using LargeVector = std::vector<T, LargePages<T>>;

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_LARGE_PAGES_H_
