#include "handles.h"

#include <algorithm>
#include <map>

#include "last_error.h"
#include "profiled_calls.h"

namespace streamguard::vgpu::nccl {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<Communicator>> communicators;
};
Registry& registry() {
  static auto* const kRegistry = new Registry;
  return *kRegistry;
}

struct Gathered {
  std::shared_ptr<Communicator> communicator;
  std::vector<Call> calls;
  std::vector<cudaStream_t> streams;
  ProfiledCalls profiled;
};

struct ThreadGroup {
  int depth = 0;
  std::vector<Gathered> gathered;  // by communicator, in order of first call
  std::vector<std::shared_ptr<Communicator>> joins;
  ProfiledGroup profiled;
};
thread_local ThreadGroup group;

ncclResult_t flush() {
  ncclResult_t result = ncclSuccess;
  auto note = [&](ncclResult_t next) {
    if (result == ncclSuccess) result = next;
  };
  const auto joins = std::move(group.joins);
  auto gathered = std::move(group.gathered);
  group.joins.clear();
  group.gathered.clear();
  for (const auto& communicator : joins) {
    note(communicator->map_peers());
    if (result != ncclSuccess) set_last_error(communicator->failure_text());
  }
  for (const auto& communicator : joins) {
    if (result != ncclSuccess) break;
    note(communicator->complete());
    if (result != ncclSuccess) set_last_error(communicator->failure_text());
  }
  std::vector<QueuedGroup> queued;
  for (const Gathered& one : gathered) {
    queued.emplace_back(one.communicator, one.calls, one.streams);
  }
  group.profiled.end_called();
  for (size_t i = 0; i < queued.size(); ++i) {
    gathered[i].profiled.launch_began(gathered[i].streams[0]);
    note(queued[i].enqueue_start());
    gathered[i].profiled.launch_ended();
  }
  for (size_t i = 0; i < queued.size(); ++i) {
    note(queued[i].enqueue_end());
    gathered[i].profiled.launched();
  }
  group.profiled.end();
  return result;
}

}  // namespace

std::shared_ptr<Communicator> find(ncclComm_t handle) {
  const std::lock_guard<std::mutex> guard(registry().mutex);
  const auto found = registry().communicators.find(handle);
  return found == registry().communicators.end() ? nullptr : found->second;
}

ncclComm_t give_out(const std::shared_ptr<Communicator>& communicator) {
  const auto handle = reinterpret_cast<ncclComm_t>(communicator.get());
  const std::lock_guard<std::mutex> guard(registry().mutex);
  registry().communicators[handle] = communicator;
  return handle;
}

void withdraw(ncclComm_t handle) {
  const std::lock_guard<std::mutex> guard(registry().mutex);
  registry().communicators.erase(handle);
}

ncclResult_t submit(const std::shared_ptr<Communicator>& communicator, Call call,
                    cudaStream_t stream) {
  auto entry = std::find_if(group.gathered.begin(), group.gathered.end(),
                            [&](const Gathered& g) { return g.communicator == communicator; });
  if (entry == group.gathered.end()) {
    group.gathered.push_back({communicator, {}, {}, {}});
    entry = std::prev(group.gathered.end());
  }
  entry->profiled.add(*communicator, call, stream, group.depth + 1, group.profiled);
  entry->calls.push_back(std::move(call));
  auto& streams = entry->streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
    streams.push_back(stream);
  }
  return group.depth > 0 ? ncclSuccess : flush();
}

ncclResult_t submit_join(const std::shared_ptr<Communicator>& communicator) {
  group.joins.push_back(communicator);
  return group.depth > 0 ? ncclSuccess : flush();
}

void open_group() { ++group.depth; }

ncclResult_t close_group() {
  if (group.depth == 0) {
    set_last_error("ncclGroupEnd without ncclGroupStart");
    return ncclInvalidUsage;
  }
  return --group.depth == 0 ? flush() : ncclSuccess;
}

}  // namespace streamguard::vgpu::nccl
