// A profiler plugin as a user would write it: prints what NCCL tells it, for version VERSION.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { kGroup = 1, kColl = 2, kP2p = 4, kGroupApi = 256, kCollApi = 512, kP2pApi = 1024 };

struct coll {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
};

struct p2p {
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
  uint8_t channels;
};

struct coll_api {
  const char* function;
  size_t count;
  const char* type;
  int root;
  void* stream;
  _Bool captured;
};

struct p2p_api {
  const char* function;
  size_t count;
  const char* type;
  void* stream;
  _Bool captured;
};

#if VERSION >= 5
typedef uint64_t event_type;
#else
typedef uint8_t event_type;
#endif

struct event {
  event_type type;
  void* parent;
  int rank;
  union {
    struct {
      _Bool captured;
      int depth;
    } group_api;
    struct coll_api coll_api;
    struct p2p_api p2p_api;
    struct coll coll;
    struct p2p p2p;
  };
};

static intptr_t newest;
static int own_rank;

static void say(const char* text) {
  char line[400];
  snprintf(line, sizeof line, "%d: %s\n", own_rank, text);
  if (write(1, line, strlen(line)) < 0) _exit(9);
}

static int set_up(void** context, int* mask, const char* name, int ranks, int rank) {
  char text[200];
  own_rank = rank;
  snprintf(text, sizeof text, "init v%d %s rank %d of %d", VERSION, name ? name : "unnamed",
           rank, ranks);
  say(text);
  *context = &newest;
#ifdef FAILS
  return 3;
#endif
  *mask = MASK;
  return 0;
}

#if VERSION >= 5
static int init(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks,
                int rank, void* logger) {
  (void)id, (void)nodes, (void)logger;
  return set_up(context, mask, name, ranks, rank);
}
#else
static int init(void** context, int* mask, const char* name, uint64_t id, int nodes, int ranks,
                int rank, void* logger) {
  (void)id, (void)nodes, (void)logger;
  return set_up(context, mask, name, ranks, rank);
}
#endif

static int start(void* context, void** handle, struct event* event) {
  char text[300] = "";
  const struct coll* c = &event->coll;
  const struct p2p* p = &event->p2p;
#if VERSION >= 5
  const struct coll_api* a = &event->coll_api;
  const struct p2p_api* q = &event->p2p_api;
#endif
  if (context != &newest) return 3;
  *handle = (void*)++newest;
  switch ((int)event->type) {
    case kGroup:
      snprintf(text, sizeof text, "group");
      break;
    case kColl:
      snprintf(text, sizeof text, "coll #%d %s %p %p %zu %s root %d of %d", (int)c->sequence,
               c->function, c->send, c->receive, c->count, c->type, c->root, event->rank);
      break;
    case kP2p:
      snprintf(text, sizeof text, "p2p %s %p %zu %s peer %d of %d", p->function, p->buffer,
               p->count, p->type, p->peer, event->rank);
      break;
#if VERSION >= 5
    case kGroupApi:
      snprintf(text, sizeof text, "group call depth %d captured %d", event->group_api.depth,
               event->group_api.captured);
      break;
    case kCollApi:
      snprintf(text, sizeof text, "coll call %s %zu %s root %d stream %p captured %d", a->function,
               a->count, a->type, a->root, a->stream, a->captured);
      break;
    case kP2pApi:
      snprintf(text, sizeof text, "p2p call %s %zu %s stream %p captured %d", q->function,
               q->count, q->type, q->stream, q->captured);
      break;
#endif
    default:
      snprintf(text, sizeof text, "unexpected type %d", (int)event->type);
  }
  char line[400];
  snprintf(line, sizeof line, "%d<%d %s", (int)newest, (int)(intptr_t)event->parent, text);
  say(line);
  return 0;
}

static int stop(void* handle) {
  char text[40];
  snprintf(text, sizeof text, "stop %d", (int)(intptr_t)handle);
  say(text);
  return 0;
}

static int record_state(void* handle, int state, void* arguments) {
  char text[60];
  (void)arguments;
  snprintf(text, sizeof text, "state %d of %d", state, (int)(intptr_t)handle);
  say(text);
  return 0;
}

static int finalize(void* context) {
  say(context == &newest ? "finalize" : "finalize of a wrong context");
  return 0;
}

struct plugin {
  const char* name;
  void *init, *start, *stop, *record_state, *finalize;
};

#define NAME2(version) ncclProfiler_v##version
#define NAME(version) NAME2(version)
const struct plugin NAME(VERSION) = {"user", init, start, stop, record_state, finalize};
