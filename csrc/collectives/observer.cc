#include "collectives/observer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <time.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "collectives/call.h"
#include "hooks/python_state.h"
#include "interposer/nccl_calls.h"

namespace streamguard::collectives {
namespace {

struct Group {
  uint32_t number = 0;
  std::string name;
  int rank = 0;
  int size = 0;
  std::atomic<uint64_t> collectives{0};
  std::atomic<uint64_t> messages{0};
};

struct State {
  Ring ring;
  hooks::StackTable stacks;
  Callbacks callbacks;
  std::atomic<bool> is_active{false};
  std::atomic<bool> is_strict{false};
  std::atomic<bool> is_timed{false};
  std::atomic<uint32_t> step{0};
  std::atomic<uint32_t> newest_site{0};
  std::atomic<uint32_t> generation{0};
  std::atomic<uint32_t> next_thread{0};
  std::mutex mutex;
  std::map<const c10d::ProcessGroup*, Group*> by_address;  // of this generation
  std::deque<Group> groups;                                // never shrinks: records refer to them
};

// Never destroyed: other threads may be inside a collective while the process ends.
State& state() {
  static State& one = *std::make_unique<State>().release();
  return one;
}

uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

Group& group_of(const c10d::ProcessGroup& process_group) {
  struct Newest {
    const c10d::ProcessGroup* address = nullptr;
    uint32_t generation = 0;
    Group* group = nullptr;
  };
  thread_local Newest newest;
  State& all = state();
  const uint32_t generation = all.generation.load(std::memory_order_acquire);
  const std::string& name = process_group.getGroupName();
  if (newest.address == &process_group && newest.generation == generation &&
      newest.group->name == name) {
    return *newest.group;
  }
  Group* group = nullptr;
  bool is_new = false;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    Group*& known = all.by_address[&process_group];
    if (known == nullptr || known->name != name) {
      known = &all.groups.emplace_back();
      known->number = static_cast<uint32_t>(all.groups.size());
      known->name = name;
      known->rank = process_group.getRank();
      known->size = process_group.getSize();
      is_new = true;
    }
    group = known;
  }
  newest = {&process_group, generation, group};
  if (is_new) {
    const hooks::ScopedGil gil;
    if (gil.held()) {
      all.callbacks.on_group(group->number, name, process_group.getGroupDesc(), group->rank,
                             group->size);
    }
  }
  return *group;
}

uint32_t site_here() {
  State& all = state();
  const uint32_t site = all.stacks.capture();
  uint32_t newest = all.newest_site.load(std::memory_order_relaxed);
  // Numbers are given in order, so a site is new exactly when its number is the highest yet.
  while (site > newest) {
    if (!all.newest_site.compare_exchange_weak(newest, site)) continue;
    const hooks::ScopedGil gil;
    if (gil.held()) {
      for (uint32_t one = newest + 1; one <= site; ++one) all.callbacks.on_site(one);
    }
    break;
  }
  return site;
}

void time_on_host(const c10::IValue& result, uint64_t position, uint64_t begin_ns) {
  if (!result.isObject()) return;
  const auto work = result.toCustomClass<c10d::Work>();
  if (!work) return;  // a part of a coalesced call
  try {
    const auto future = work->getFuture();
    if (!future) return;
    future->addCallback(
        [position, begin_ns](c10::ivalue::Future&) {
          state().ring.set_times(position, begin_ns, now_ns());
        },
        /*uses_future=*/false);
  } catch (const c10::Error&) {
    return;  // a work without a future is not timed
  }
}

// This thread's nesting of c10d ops, as the preloaded library that counts NCCL's calls sees it.
int& recorded_depth() {
  using Find = int* (*)();
  static const auto find =
      reinterpret_cast<Find>(dlsym(RTLD_DEFAULT, "streamguard_recorded_depth"));
  thread_local int unused = 0;
  thread_local int* depth = find == nullptr ? &unused : find();
  return *depth;
}

thread_local bool is_inside = false;

class Observer final : public c10::OperatorKernel {
 public:
  explicit Observer(CallReader reader) : reader_(std::move(reader)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER,
                                                                 c10::DispatchKey::BackendSelect);
    State& all = state();
    struct Depth {
      int& depth = ++recorded_depth();
      ~Depth() { --depth; }
    } const depth;
    if (!all.is_active.load(std::memory_order_relaxed) || is_inside) {
      op.redispatchBoxed(below, stack);
      return;
    }
    const std::optional<Position> position = record(op, *stack);
    is_inside = true;
    struct Leave {
      ~Leave() { is_inside = false; }
    } const leave;
    op.redispatchBoxed(below, stack);
    if (position && all.is_timed.load(std::memory_order_relaxed) && position->is_on_host &&
        !stack->empty()) {
      time_on_host(stack->back(), position->number, position->begin_ns);
    }
  }

 private:
  struct Position {
    uint64_t number;
    uint64_t begin_ns;
    bool is_on_host;
  };

  std::optional<Position> record(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    State& all = state();
    const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
    const auto process_group =
        arguments[reader_.group_argument()].toCustomClass<c10d::ProcessGroup>();
    Record record{};
    Group& group = group_of(*process_group);
    if (!reader_.read(arguments, group.rank, group.size, record)) return std::nullopt;
    record.begin_ns = now_ns();
    record.group = group.number;
    const bool is_message = reader_.op().sizes == Sizes::kPeer;
    record.sequence = (is_message ? group.messages : group.collectives).fetch_add(1);
    record.site = site_here();
    record.step = all.step.load(std::memory_order_relaxed);
    thread_local const uint32_t thread = all.next_thread.fetch_add(1);
    record.thread = thread;
    if (torch::autograd::get_current_graph_task_id() != -1) record.flags |= kBackward;
    const uint64_t number = all.ring.append(record);
    if (all.is_strict.load(std::memory_order_relaxed) && !is_message) check(record);
    return Position{number, record.begin_ns, record.stream == -1};
  }

  static void check(const Record& record) {
    std::string problem;
    {
      const hooks::ScopedGil gil;
      if (gil.held()) problem = state().callbacks.before(record);
    }
    if (!problem.empty()) C10_THROW_ERROR(DistBackendError, problem);
  }

  CallReader reader_;
};

}  // namespace

int install() {
  static int count = -1;  // guarded by the GIL
  if (count >= 0) return count;
  count = 0;
  auto& library =
      *std::make_unique<torch::Library>(torch::Library::IMPL, "c10d",
                                        c10::DispatchKey::BackendSelect, __FILE__, __LINE__)
           .release();
  for (uint8_t position = 0; position < std::size(kOps); ++position) {
    const std::string name(kOps[position].name);
    const auto op = c10::Dispatcher::singleton().findSchema({"c10d::" + name, ""});
    if (!op || !op->schema().argumentIndexWithName("process_group")) continue;
    library.impl(name.c_str(),
                 torch::CppFunction::makeFromBoxedKernel(c10::BoxedKernel::makeFromFunctor(
                     std::make_unique<Observer>(CallReader(*op, position)))));
    ++count;
  }
  return count;
}

void start(const std::string& ring_path, uint64_t capacity, int stack_depth, bool is_timed,
           Callbacks callbacks) {
  State& all = state();
  all.callbacks = std::move(callbacks);
  all.stacks.set_depth(stack_depth);
  all.ring.open(ring_path, capacity);
  all.is_timed = is_timed;
  forget_groups();
  all.is_active = true;
}

void stop() {
  state().is_active = false;
  state().is_strict = false;
}

void set_strict(bool is_strict) { state().is_strict = is_strict; }

void forget_groups() {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.by_address.clear();
  ++all.generation;
}

void set_step(uint32_t step) { state().step = step; }

void set_times(uint64_t position, uint64_t start_ns, uint64_t end_ns) {
  if (state().ring.is_open()) state().ring.set_times(position, start_ns, end_ns);
}

hooks::StackTable& stacks() { return state().stacks; }

}  // namespace streamguard::collectives
