// Cost per launch of ThreadSanitizer with a fiber per stream. Usage: core_fibers FILE PASSES
//
// Compile with -fsanitize=thread. Switching to a fiber with synchronisation orders it after the
// switching one, as a launch orders its stream after the host; switching back without leaves the
// host ignorant of the stream's work.
#include <sys/mman.h>

#include <cstdlib>

#include "core_sequence.h"

extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_read_range(void* address, unsigned long size);
void __tsan_write_range(void* address, unsigned long size);
const char* __tsan_default_options() { return "report_bugs=1:log_path=/dev/null:exitcode=0"; }
static std::size_t report_count = 0;
void __tsan_on_report(void*) { ++report_count; }
}

namespace {

using streamguard::bench::Sequence;

constexpr unsigned kSynchronised = 0;
constexpr unsigned kWithoutSynchronisation = 1;

class FiberDetector {
 public:
  explicit FiberDetector(const Sequence& sequence)
      : size_(sequence.region_bytes), host_(__tsan_get_current_fiber()) {
    const std::size_t bytes = sequence.region_count * size_;
    memory_ = static_cast<char*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED) std::exit(2);
    for (std::uint32_t stream = 0; stream < sequence.stream_count; ++stream) {
      fibers_.push_back(__tsan_create_fiber(0));
    }
  }

  __attribute__((no_sanitize("thread"))) void launch(std::uint32_t stream, std::uint32_t read,
                                                     std::uint32_t written) {
    __tsan_switch_to_fiber(fibers_[stream], kSynchronised);
    __tsan_read_range(memory_ + read * size_, size_);
    __tsan_write_range(memory_ + written * size_, size_);
    __tsan_switch_to_fiber(host_, kWithoutSynchronisation);
  }
  // Eight bytes: a race in each granule of a region would take minutes to report.
  __attribute__((no_sanitize("thread"))) void race(std::uint32_t stream, std::uint32_t written) {
    __tsan_switch_to_fiber(fibers_[stream], kSynchronised);
    __tsan_write_range(memory_ + written * size_, 8);
    __tsan_switch_to_fiber(host_, kWithoutSynchronisation);
  }
  __attribute__((no_sanitize("thread"))) void record(std::uint32_t stream) {
    __tsan_switch_to_fiber(fibers_[stream], kSynchronised);
    __tsan_release(&event_);
    __tsan_switch_to_fiber(host_, kWithoutSynchronisation);
  }
  __attribute__((no_sanitize("thread"))) void wait(std::uint32_t stream) {
    __tsan_switch_to_fiber(fibers_[stream], kSynchronised);
    __tsan_acquire(&event_);
    __tsan_switch_to_fiber(host_, kWithoutSynchronisation);
  }
  std::size_t race_count() const { return report_count; }

 private:
  std::uint64_t size_;
  void* host_;
  char* memory_ = nullptr;
  std::vector<void*> fibers_;
  char event_ = 0;
};

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) return 2;
  const Sequence sequence = streamguard::bench::read_sequence(arguments[1]);
  FiberDetector detector(sequence);
  return measure(sequence, detector, std::atoi(arguments[2]));
}
