// The sequence of launches that bench/engine.py feeds to every detector.
#ifndef STREAMGUARD_BENCH_CORE_SEQUENCE_H_
#define STREAMGUARD_BENCH_CORE_SEQUENCE_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace streamguard::bench {

// One line of a sequence file.
struct Step {
  enum class Kind { kLaunch, kRecord, kWait };

  Kind kind = Kind::kLaunch;
  std::uint32_t stream = 0;
  std::uint32_t read = 0;     // region, of kLaunch
  std::uint32_t written = 0;  // region, of kLaunch
};

struct Sequence {
  std::uint32_t stream_count = 0;
  std::uint32_t region_count = 0;
  std::uint64_t region_bytes = 0;
  std::vector<Step> steps;  // without a race, also when repeated
  Step racing;              // a write that races with one access of the steps
  std::uint64_t launch_count = 0;
};

// Reads "streams regions bytes", then lines "L stream read written", "R stream", "W stream" (of the
// one event), and last "X stream written". Ends the process when there is no such file.
inline Sequence read_sequence(const char* path) {
  std::FILE* file = std::fopen(path, "r");
  Sequence sequence;
  unsigned long long bytes = 0;
  if (file == nullptr || std::fscanf(file, "%u %u %llu", &sequence.stream_count,
                                     &sequence.region_count, &bytes) != 3) {
    std::perror(path);
    std::exit(2);
  }
  sequence.region_bytes = bytes;
  char letter = 0;
  while (std::fscanf(file, " %c", &letter) == 1) {
    Step step;
    bool is_read = std::fscanf(file, "%u", &step.stream) == 1;
    if (letter == 'L') {
      is_read = is_read && std::fscanf(file, "%u %u", &step.read, &step.written) == 2;
    } else if (letter == 'X') {
      is_read = is_read && std::fscanf(file, "%u", &step.written) == 1;
    } else {
      step.kind = letter == 'R' ? Step::Kind::kRecord : Step::Kind::kWait;
    }
    if (!is_read) {
      std::fprintf(stderr, "%s is damaged\n", path);
      std::exit(2);
    }
    if (letter == 'X') {
      sequence.racing = step;
      continue;
    }
    sequence.steps.push_back(step);
    sequence.launch_count += letter == 'L';
  }
  std::fclose(file);
  return sequence;
}

// Runs the sequence once to warm up, `passes` times on the clock, then the racing write. Prints
// nanoseconds per launch as JSON; ends the process when the detector is wrong.
template <typename Detector>
int measure(const Sequence& sequence, Detector& detector, int passes) {
  const auto run = [&](const Step& step) {
    switch (step.kind) {
      case Step::Kind::kLaunch:
        detector.launch(step.stream, step.read, step.written);
        return;
      case Step::Kind::kRecord:
        detector.record(step.stream);
        return;
      case Step::Kind::kWait:
        detector.wait(step.stream);
        return;
    }
  };
  for (const Step& step : sequence.steps) run(step);
  const auto begin = std::chrono::steady_clock::now();
  for (int pass = 0; pass < passes; ++pass) {
    for (const Step& step : sequence.steps) run(step);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  const auto before = detector.race_count();
  detector.race(sequence.racing.stream, sequence.racing.written);
  const auto after = detector.race_count();
  if (before != 0 || after == 0) {
    std::fprintf(stderr, "wrong: %zu races in a clean sequence, %zu with a racing write\n",
                 static_cast<std::size_t>(before), static_cast<std::size_t>(after));
    return 1;
  }
  std::printf("{\"ns\": %.2f, \"races\": %zu}\n",
              took.count() / (static_cast<double>(sequence.launch_count) * passes),
              static_cast<std::size_t>(after));
  return 0;
}

}  // namespace streamguard::bench

#endif  // STREAMGUARD_BENCH_CORE_SEQUENCE_H_
