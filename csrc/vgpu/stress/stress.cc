// Random calls of the virtual GPU's runtime and NCCL from several threads, for the sanitizers.
//
// Usage: stress ROUNDS SEED SCHEDULE. Every thread owns its memory, streams and events, and checks
// at each synchronisation that its bytes are what its own calls made; so a report of a sanitizer,
// or a wrong byte, is the runtime's fault. Ends with status 1 on a wrong byte.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../runtime/internal_api.h"
#include "../runtime/nccl/nccl_abi.h"

extern "C" {
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream);
}

namespace {

constexpr int kThreads = 4;
constexpr int kStreams = 5;
constexpr size_t kBytes = 4096;
constexpr int kCollectives = 40;

std::atomic<int> failures{0};

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "stress: %s\n", what);
  ++failures;
}

void ok(cudaError_t error) {
  if (error != cudaSuccess) expect(false, cudaGetErrorString(error));
}

// One thread's part of a device: two buffers, and streams that a random program orders in full.
class Client {
 public:
  Client(int device, unsigned seed) : random_(seed) {
    ok(cudaSetDevice(device));
    for (cudaStream_t& stream : streams_) {
      ok(cudaStreamCreateWithFlags(&stream, random_() % 2 == 0 ? cudaStreamNonBlocking : 0));
    }
    ok(cudaMalloc(reinterpret_cast<void**>(&data_), kBytes));
    ok(cudaHostAlloc(reinterpret_cast<void**>(&host_), kBytes, 0));
    ok(cudaMemset(data_, 0, kBytes));
    ok(cudaDeviceSynchronize());
  }
  ~Client() {
    ok(cudaFree(data_));
    ok(cudaFreeHost(host_));
    for (cudaStream_t stream : streams_) ok(cudaStreamDestroy(stream));
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void run(int steps) {
    for (int step = 0; step < steps; ++step) one_step();
    check();
  }

 private:
  // Each write happens on another stream, which waits for the one before it.
  void one_step() {
    switch (random_() % 8) {
      case 0:
        return check();
      case 1:
        return pass_memory();
      case 2:
        return replace_stream();
      case 3:
        return count_on_host();
      case 4:
        return launch_graph();
      default:
        return write();
    }
  }

  void go_to_another_stream() {
    const size_t next = random_() % kStreams;
    cudaEvent_t event = nullptr;
    ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    ok(cudaEventRecord(event, streams_[at_]));
    ok(cudaStreamWaitEvent(streams_[next], event, 0));
    const cudaError_t state = cudaEventQuery(event);
    expect(state == cudaSuccess || state == cudaErrorNotReady, "query");
    ok(cudaEventDestroy(event));
    at_ = next;
  }

  void write() {
    go_to_another_stream();
    value_ = static_cast<unsigned char>(random_());
    ok(cudaMemsetAsync(data_, value_, kBytes, streams_[at_]));
  }

  void check() {
    go_to_another_stream();
    ok(cudaMemcpyAsync(host_, data_, kBytes, cudaMemcpyDefault, streams_[at_]));
    ok(cudaStreamSynchronize(streams_[at_]));
    expect(host_[0] == value_ && host_[kBytes - 1] == value_, "a wrong byte");
  }

  // Stream-ordered memory: written, read and freed without the host.
  void pass_memory() {
    go_to_another_stream();
    void* between = nullptr;
    ok(cudaMallocAsync(&between, kBytes, streams_[at_]));
    ok(cudaMemcpyAsync(between, data_, kBytes, cudaMemcpyDefault, streams_[at_]));
    go_to_another_stream();
    ok(cudaMemcpyAsync(data_, between, kBytes, cudaMemcpyDefault, streams_[at_]));
    ok(cudaFreeAsync(between, streams_[at_]));
  }

  void replace_stream() {
    const size_t gone = at_;
    while (at_ == gone) go_to_another_stream();
    ok(cudaStreamDestroy(streams_[gone]));
    ok(cudaStreamCreateWithFlags(&streams_[gone], cudaStreamNonBlocking));
  }

  void count_on_host() {
    go_to_another_stream();
    ok(cudaLaunchHostFunc(
        streams_[at_], [](void* self) { ++static_cast<Client*>(self)->called_; }, this));
    ok(cudaStreamSynchronize(streams_[at_]));
    expect(called_ == ++calls_, "a host function did not run once");
  }

  void launch_graph() {
    go_to_another_stream();
    value_ = static_cast<unsigned char>(random_());
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ok(cudaStreamBeginCapture(streams_[at_], cudaStreamCaptureModeRelaxed));
    ok(cudaMemsetAsync(data_, value_, kBytes, streams_[at_]));
    ok(cudaStreamEndCapture(streams_[at_], &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    ok(cudaGraphLaunch(executable, streams_[at_]));
    ok(cudaGraphExecDestroy(executable));
    ok(cudaGraphDestroy(graph));
  }

  std::mt19937 random_;
  cudaStream_t streams_[kStreams] = {};
  size_t at_ = 0;
  unsigned char* data_ = nullptr;
  unsigned char* host_ = nullptr;
  unsigned char value_ = 0;
  int called_ = 0;
  int calls_ = 0;
};

// Each thread is a rank of one communicator.
void reduce_on_all(int ranks, unsigned seed) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(ranks));
  expect(ncclCommInitAll(comms.data(), ranks, nullptr) == ncclSuccess, "ncclCommInitAll");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ok(cudaSetDevice(rank));
      std::mt19937 random(seed + static_cast<unsigned>(rank));
      cudaStream_t stream = nullptr;
      ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      float* data = nullptr;
      float result = 0;
      ok(cudaMalloc(reinterpret_cast<void**>(&data), sizeof *data));
      const float start = 1;
      float expected = 1;
      for (int i = 0; i < kCollectives; ++i) {
        if (i % 8 == 0) {
          ok(cudaMemcpyAsync(data, &start, sizeof start, cudaMemcpyDefault, stream));
          expected = 1;
        }
        expect(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, comms[static_cast<size_t>(rank)],
                             stream) == ncclSuccess,
               "ncclAllReduce");
        expected *= static_cast<float>(ranks);
        if (random() % 4 != 0) continue;
        ok(cudaMemcpyAsync(&result, data, sizeof result, cudaMemcpyDefault, stream));
        expect(result == expected, "a wrong sum");
      }
      ok(cudaStreamSynchronize(stream));
      expect(ncclCommDestroy(comms[static_cast<size_t>(rank)]) == ncclSuccess, "ncclCommDestroy");
      ok(cudaFree(data));
      ok(cudaStreamDestroy(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: %s ROUNDS SEED SCHEDULE\n", arguments[0]);
    return 2;
  }
  const int rounds = std::atoi(arguments[1]);
  const auto seed = static_cast<unsigned>(std::strtoul(arguments[2], nullptr, 10));
  setenv("STREAMGUARD_VGPU", std::to_string(kThreads).c_str(), 1);
  setenv("STREAMGUARD_VGPU_SCHEDULE", arguments[3], 1);
  for (int round = 0; round < rounds; ++round) {
    const unsigned base = seed + static_cast<unsigned>(round) * 100;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([=] {
        // Two threads share each of two devices.
        Client client(i % 2, base + static_cast<unsigned>(i));
        client.run(200);
      });
    }
    for (std::thread& thread : threads) thread.join();
    reduce_on_all(3, base);
    ok(cudaDeviceSynchronize());
    ok(streamguard_vgpu_start_schedule(arguments[3]));
  }
  std::printf("stress: %d rounds under %s, %d failures\n", rounds, arguments[3], failures.load());
  return failures == 0 ? 0 : 1;
}
