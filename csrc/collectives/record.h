#pragma once

#include <cstdint>

namespace streamguard::collectives {

/// One call of a c10d op, as it lies in the ring file. streamguard/collectives/record.py reads it.
///
/// `number` is written last: 1 + the record's position in the whole run. 0 or another position
/// means that the slot is being written or was reused.
struct Record {
  uint64_t number;
  uint64_t begin_ns;     // wall clock, when the call was made
  uint64_t end_ns;       // wall clock, when its work was seen complete; 0 when not timed
  uint64_t sequence;     // from 0, within the group; sends and receives count by themselves
  uint64_t fingerprint;  // what every member of the group must agree on
  uint64_t balance;      // what must add up to 0 over the members: sent minus expected sizes
  int64_t input_count;   // elements
  int64_t output_count;
  int64_t input_bytes;
  int64_t output_bytes;
  uint64_t buffer;  // address of the first tensor
  int64_t stream;   // torch's stream id; -1 on the host
  uint32_t group;
  uint32_t site;
  int32_t peer;  // root, destination or source within the group; -1 without one
  int32_t tag;
  uint32_t version;  // of the first tensor's data, counted by autograd
  uint32_t thread;
  uint8_t op;  // position in kOps
  uint8_t dtype;
  uint8_t reduce_op;
  uint8_t flags;
  uint32_t step;
  uint64_t start_ns;  // end_ns less the measured time of the work
};

static_assert(sizeof(Record) == 136);

enum Flag : uint8_t {
  kAsynchronous = 1,
  kBackward = 2,
  kUneven = 4,
  kMutable = 8,  // `version` is known
};

/// The first 128 bytes of a ring file.
struct Header {
  char magic[8];  // "SGCOLL02"
  uint64_t capacity;
  uint64_t next;  // records begun
  uint64_t pid;
  uint64_t unused[12];
};

static_assert(sizeof(Header) == 128);

}  // namespace streamguard::collectives
