#include "hooks/unboxed_observers.h"

#include <ATen/core/IListRef.h>
#include <ATen/core/op_registration/infer_schema.h>

#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hooks/copy_observer.h"
#include "hooks/detector.h"
#include "hooks/op_scope.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {
namespace {

void add_typed(OpScope& scope, const at::Tensor& tensor, core::AccessKind kind) {
  scope.add_tensor(tensor, kind);
}

void add_typed(OpScope& scope, at::TensorList tensors, core::AccessKind kind) {
  for (const at::Tensor& tensor : tensors) scope.add_tensor(tensor, kind);
}

void add_typed(OpScope& scope, const at::ITensorListRef& tensors, core::AccessKind kind) {
  for (const at::Tensor& tensor : tensors) scope.add_tensor(tensor, kind);
}

// An operator with tensors of other C++ types matches no signature: see `arguments_agree`.
template <typename T>
constexpr bool kHoldsTensors = std::is_same_v<std::decay_t<T>, at::Tensor> ||
                               std::is_same_v<std::decay_t<T>, at::TensorList> ||
                               std::is_same_v<std::decay_t<T>, at::ITensorListRef>;

template <typename T>
void add_argument(OpScope& scope, ArgumentUse use, const T& argument) {
  if constexpr (kHoldsTensors<T>) {
    add_typed(scope, argument,
              use == ArgumentUse::kWrite ? core::AccessKind::kWrite : core::AccessKind::kRead);
  }
}

void add_results(OpScope& scope, const at::Tensor& result, bool is_in_place) {
  scope.add_result(result, is_in_place);
}

void add_results(OpScope& scope, const std::vector<at::Tensor>& results, bool is_in_place) {
  for (const at::Tensor& result : results) scope.add_result(result, is_in_place);
}

/// The kernel that was registered before, and the operator it belongs to.
struct WatchedKernel {
  c10::OperatorHandle op;
  OpSchema schema;
  c10::KernelFunction kernel;
  core::LabelId label;

  // A kernel inside an observed one works on behalf of it, as in `KernelObserver`.
  static bool is_observed() {
    return Detector::get().is_active() && this_thread().scope == nullptr;
  }
};

/// As `KernelObserver`. The caller's arguments live until the call returns, so that the
/// scope need not hold what a stack would have owned.
template <typename Signature>
class UnboxedObserver;

template <typename Result, typename... Arguments>
class UnboxedObserver<Result(Arguments...)> {
  // A kernel of symbolic integers may have another C++ signature than its operator.
  static_assert(!std::disjunction_v<c10::has_symint<Arguments>...>);

 public:
  explicit UnboxedObserver(WatchedKernel watched) : watched_(std::move(watched)) {}

  Result operator()(c10::DispatchKeySet keys, Arguments... arguments) {
    if (!WatchedKernel::is_observed()) {
      return watched_.kernel.template call<Result, Arguments...>(
          watched_.op, keys, std::forward<Arguments>(arguments)...);
    }
    OpScope scope(this_thread(), watched_.label);
    const ArgumentUse* use = watched_.schema.arguments.data();
    (add_argument(scope, *use++, arguments), ...);
    scope.order_before_start();
    if constexpr (std::is_void_v<Result>) {
      watched_.kernel.template call<Result, Arguments...>(watched_.op, keys,
                                                          std::forward<Arguments>(arguments)...);
      scope.finish();
    } else {
      Result result = watched_.kernel.template call<Result, Arguments...>(
          watched_.op, keys, std::forward<Arguments>(arguments)...);
      add_results(scope, result, watched_.schema.is_in_place);
      scope.finish();
      return result;
    }
  }

 private:
  WatchedKernel watched_;
};

using CopySignature = at::Tensor&(at::Tensor&, const at::Tensor&, bool);

class UnboxedCopyObserver {
 public:
  explicit UnboxedCopyObserver(WatchedKernel watched) : watched_(std::move(watched)) {}

  at::Tensor& operator()(c10::DispatchKeySet keys, at::Tensor& destination,
                         const at::Tensor& source, bool is_non_blocking) {
    const auto run_kernel = [&]() -> at::Tensor& {
      return watched_.kernel.call<at::Tensor&, at::Tensor&, const at::Tensor&, bool>(
          watched_.op, keys, destination, source, is_non_blocking);
    };
    if (!WatchedKernel::is_observed()) return run_kernel();
    observe_copy(watched_.label, destination, source, [&] { run_kernel(); });
    return destination;
  }

 private:
  WatchedKernel watched_;
};

bool is_written(const c10::Argument& value) {
  return value.alias_info() != nullptr && value.alias_info()->isWrite();
}

template <typename T>
bool agrees(const c10::Argument& specified, const c10::Argument& inferred) {
  // Only a written tensor is a mutable reference.
  constexpr bool kIsMutable = std::is_same_v<T, at::Tensor&>;
  constexpr bool kIsConstant = std::is_same_v<std::decay_t<T>, at::Tensor> && !kIsMutable;
  if (kIsMutable && !is_written(specified)) return false;
  if (kIsConstant && is_written(specified)) return false;
  return *specified.real_type() == *inferred.real_type();
}

template <typename Signature>
struct SignatureCheck;

template <typename Result, typename... Arguments>
struct SignatureCheck<Result(Arguments...)> {
  static bool agrees_with(const c10::FunctionSchema& schema, const OpSchema& described) {
    static const c10::FunctionSchema inferred =
        c10::inferFunctionSchemaFlattenedReturns<Result(Arguments...)>();
    if (schema.arguments().size() != inferred.arguments().size() ||
        schema.returns().size() != inferred.returns().size() || schema.is_vararg() ||
        schema.is_varret()) {
      return false;
    }
    return arguments_agree(schema, inferred, described,
                           std::make_index_sequence<sizeof...(Arguments)>()) &&
           returns_agree(schema, inferred);
  }

 private:
  template <size_t... i>
  static bool arguments_agree(const c10::FunctionSchema& schema,
                              const c10::FunctionSchema& inferred, const OpSchema& described,
                              std::index_sequence<i...>) {
    return ((agrees<Arguments>(schema.arguments()[i], inferred.arguments()[i]) &&
             kHoldsTensors<Arguments> == (described.arguments[i] != ArgumentUse::kNone)) &&
            ...);
  }

  static bool returns_agree(const c10::FunctionSchema& schema,
                            const c10::FunctionSchema& inferred) {
    for (size_t i = 0; i < schema.returns().size(); ++i) {
      const c10::Argument& specified = schema.returns()[i];
      if (is_written(specified) != std::is_same_v<Result, at::Tensor&>) return false;
      if (*specified.real_type() != *inferred.returns()[i].real_type()) return false;
    }
    return true;
  }
};

template <typename Signature, typename Observer>
std::optional<torch::CppFunction> make_for(const c10::OperatorHandle& op, const OpSchema& schema,
                                           const c10::KernelFunction& kernel) {
  if (!SignatureCheck<Signature>::agrees_with(op.schema(), schema)) return std::nullopt;
  try {
    op.typed<Signature>();
  } catch (const c10::Error&) {
    return std::nullopt;  // schemas do not tell all C++ types apart
  }
  const core::LabelId label = Detector::Access(Detector::get())->labels.intern_op(schema.name);
  return torch::CppFunction(Observer({op, schema, kernel, label}));
}

template <typename... Signatures>
struct SignatureList {
  static std::optional<torch::CppFunction> make(const c10::OperatorHandle& op,
                                                const OpSchema& schema,
                                                const c10::KernelFunction& kernel) {
    std::optional<torch::CppFunction> made;
    const auto try_one = [&](std::optional<torch::CppFunction> one) {
      if (one) made.emplace(std::move(*one));
      return made.has_value();
    };
    (void)(try_one(make_for<Signatures, UnboxedObserver<Signatures>>(op, schema, kernel)) || ...);
    return made;
  }
};

using at::ITensorListRef;
using at::OptionalIntArrayRef;
using at::Scalar;
using at::Tensor;
using at::TensorList;
using OptionalType = std::optional<at::ScalarType>;
using Scalars = at::ArrayRef<Scalar>;

// Each with an operator that has it.
using FrequentSignatures = SignatureList<
    Tensor(const Tensor&),                                               // relu
    Tensor&(Tensor&),                                                    // zero_
    Tensor(const Tensor&, const Tensor&),                                // mm
    Tensor&(Tensor&, const Tensor&),                                     // div_.Tensor
    Tensor(const Tensor&, const Scalar&),                                // lt.Scalar
    Tensor&(Tensor&, const Scalar&),                                     // fill_.Scalar
    Tensor(const Tensor&, const Tensor&, const Scalar&),                 // add.Tensor
    Tensor&(Tensor&, const Tensor&, const Scalar&),                      // add_.Tensor
    Tensor(const Tensor&, const Tensor&, const Tensor&),                 // where.self
    Tensor&(Tensor&, const Tensor&, const Tensor&),                      // masked_fill_.Tensor
    Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&),  // addcmul
    Tensor&(Tensor&, const Tensor&, const Tensor&, const Scalar&),       // addcmul_
    Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&),  // addmm
    Tensor(const Tensor&, OptionalType),                                                // prod
    Tensor(const Tensor&, OptionalIntArrayRef, bool, OptionalType),  // sum.dim_IntList
    Tensor(const Tensor&, const Scalar&, OptionalIntArrayRef, bool, OptionalType),  // vector_norm
    Tensor(const Tensor&, int64_t, bool),                                           // _log_softmax
    Tensor(const Tensor&, std::string_view),                                        // gelu
    Tensor(const Tensor&, const Tensor&, std::string_view),                         // gelu_backward
    Tensor(const ITensorListRef&, int64_t),                                         // cat
    void(TensorList, const Scalar&),                          // _foreach_mul_.Scalar
    void(TensorList, Scalars),                                // _foreach_mul_.ScalarList
    void(TensorList, TensorList),                             // _foreach_mul_.List
    void(TensorList, TensorList, const Scalar&),              // _foreach_add_.List
    void(TensorList, TensorList, TensorList, const Scalar&),  // _foreach_addcmul_.Scalar
    void(TensorList, TensorList, TensorList, Scalars),        // _foreach_addcdiv_.ScalarList
    std::vector<Tensor>(TensorList)>;                         // _foreach_sqrt

}  // namespace

std::optional<torch::CppFunction> make_unboxed_observer(const c10::OperatorHandle& op,
                                                        const OpSchema& schema,
                                                        const c10::KernelFunction& kernel) {
  if (!kernel.isValidUnboxed()) return std::nullopt;
  switch (schema.op_class) {
    case OpClass::kCopy:
      return make_for<CopySignature, UnboxedCopyObserver>(op, schema, kernel);
    case OpClass::kKernel:
      return FrequentSignatures::make(op, schema, kernel);
    case OpClass::kNotObserved:
    case OpClass::kFactory:
    case OpClass::kRecordStream:
    case OpClass::kListCopy:
    case OpClass::kCollective:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace streamguard::hooks
