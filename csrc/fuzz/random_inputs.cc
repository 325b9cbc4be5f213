// Runs a fuzz target without libFuzzer, on random inputs.
//
// Usage: <target> [inputs] [seed] [threads]
// Threads share nothing but the code: under ThreadSanitizer that shows hidden global state.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::uint64_t argument(int count, char** values, int index, std::uint64_t standard) {
  return index < count ? std::strtoull(values[index], nullptr, 10) : standard;
}

void run(std::uint64_t first_seed, std::uint64_t inputs) {
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t index = 0; index < inputs; ++index) {
    std::mt19937_64 random(first_seed + index);
    bytes.resize(random() % 1024);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  const std::uint64_t inputs = argument(argument_count, arguments, 1, 10000);
  const std::uint64_t seed = argument(argument_count, arguments, 2, std::random_device{}());
  const std::uint64_t threads = argument(argument_count, arguments, 3, 1);
  std::printf("first seed: %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::vector<std::thread> running;
  for (std::uint64_t index = 0; index < threads; ++index) {
    running.emplace_back(run, seed + index * (inputs / threads), inputs / threads);
  }
  for (std::thread& each : running) each.join();
  std::printf("%llu inputs, nothing found\n", static_cast<unsigned long long>(inputs));
  return 0;
}
