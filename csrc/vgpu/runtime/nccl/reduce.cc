#include "reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "float8.h"

namespace streamguard::vgpu::nccl {
namespace {

// How one element type is read into and written from its accumulator.
template <class T>
struct Plain {
  using Element = T;
  using Accumulator = T;
  static T read(T value) { return value; }
  static T write(T value) { return value; }
};

struct Bfloat16 {
  using Element = uint16_t;
  using Accumulator = float;
  static float read(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  // Round to nearest even; a NaN must not round up to infinity.
  static uint16_t write(float value) {
    if (std::isnan(value)) return 0x7fc0;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits += 0x7fff + ((bits >> 16) & 1);
    return static_cast<uint16_t>(bits >> 16);
  }
};

struct Float16 {
  using Element = _Float16;
  using Accumulator = float;
  static float read(_Float16 value) { return static_cast<float>(value); }
  static _Float16 write(float value) { return static_cast<_Float16>(value); }
};

struct Sum {
  template <class T>
  static T combine(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Product {
  template <class T>
  static T combine(T a, T b) {
    return static_cast<T>(a * b);
  }
};
struct Maximum {
  template <class T>
  static T combine(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
    return std::max(a, b);
  }
};
struct Minimum {
  template <class T>
  static T combine(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
    return std::min(a, b);
  }
};

constexpr size_t kBlock = 1024;  // elements kept in the accumulator: stays in the first cache

template <class Format>
void load(typename Format::Accumulator* values, const Operand& operand, size_t begin,
          size_t count) {
  const auto* elements = static_cast<const typename Format::Element*>(operand.data) + begin;
  for (size_t i = 0; i < count; ++i) values[i] = Format::read(elements[i]);
  if (operand.factor == nullptr) return;
  typename Format::Element stored;
  std::memcpy(&stored, operand.factor, sizeof stored);
  const auto factor = Format::read(stored);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<typename Format::Accumulator>(values[i] * factor);
  }
}

template <class Format, class Operator>
void reduce_with(void* target, const std::vector<Operand>& operands, size_t count, bool mean) {
  using Accumulator = typename Format::Accumulator;
  auto* output = static_cast<typename Format::Element*>(target);
  Accumulator total[kBlock];
  Accumulator next[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t length = std::min(kBlock, count - begin);
    load<Format>(total, operands[0], begin, length);
    for (size_t rank = 1; rank < operands.size(); ++rank) {
      load<Format>(next, operands[rank], begin, length);
      for (size_t i = 0; i < length; ++i) total[i] = Operator::combine(total[i], next[i]);
    }
    if (mean) {
      const auto ranks = static_cast<Accumulator>(operands.size());
      for (size_t i = 0; i < length; ++i) total[i] = static_cast<Accumulator>(total[i] / ranks);
    }
    for (size_t i = 0; i < length; ++i) output[begin + i] = Format::write(total[i]);
  }
}

template <class Format>
void reduce_as(void* target, const std::vector<Operand>& operands, size_t count,
               ncclRedOp_t reduction) {
  switch (reduction) {
    case ncclProd:
      return reduce_with<Format, Product>(target, operands, count, false);
    case ncclMax:
      return reduce_with<Format, Maximum>(target, operands, count, false);
    case ncclMin:
      return reduce_with<Format, Minimum>(target, operands, count, false);
    case ncclAvg:
      return reduce_with<Format, Sum>(target, operands, count, true);
    case ncclSum:
    case ncclNumOps:
      return reduce_with<Format, Sum>(target, operands, count, false);
  }
}

}  // namespace

void reduce(void* target, const std::vector<Operand>& operands, size_t count, ncclDataType_t type,
            ncclRedOp_t reduction) {
  switch (type) {
    case ncclInt8:
      return reduce_as<Plain<int8_t>>(target, operands, count, reduction);
    case ncclUint8:
      return reduce_as<Plain<uint8_t>>(target, operands, count, reduction);
    case ncclInt32:
      return reduce_as<Plain<int32_t>>(target, operands, count, reduction);
    case ncclUint32:
      return reduce_as<Plain<uint32_t>>(target, operands, count, reduction);
    case ncclInt64:
      return reduce_as<Plain<int64_t>>(target, operands, count, reduction);
    case ncclUint64:
      return reduce_as<Plain<uint64_t>>(target, operands, count, reduction);
    case ncclFloat32:
      return reduce_as<Plain<float>>(target, operands, count, reduction);
    case ncclFloat64:
      return reduce_as<Plain<double>>(target, operands, count, reduction);
    case ncclFloat16:
      return reduce_as<Float16>(target, operands, count, reduction);
    case ncclBfloat16:
      return reduce_as<Bfloat16>(target, operands, count, reduction);
    case ncclFloat8e4m3:
      return reduce_as<Float8E4M3>(target, operands, count, reduction);
    case ncclFloat8e5m2:
      return reduce_as<Float8E5M2>(target, operands, count, reduction);
  }
}

}  // namespace streamguard::vgpu::nccl
