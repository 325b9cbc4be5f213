#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/util/Exception.h>

#include <string>

namespace streamguard::hooks {

/// The part of c10's interpreter table that a GPUTrace sink is never asked for: c10 calls the trace
/// functions of the sink, everything else goes to the tensors' own interpreter.
///
/// The table's layout is fixed for one torch minor version; the module refuses to load with
/// another.
class TraceOnlyInterpreter : public c10::impl::PyInterpreterVTable {
 public:
  std::string name() const override { return "streamguard"; }

  void incref(PyObject*) const override { refuse(); }
  void decref(PyObject*) const override { refuse(); }
  bool try_incref(const c10::impl::PyObjectSlot&) const override { refuse(); }
  size_t refcnt(PyObject*) const override { refuse(); }
  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl*) const override { refuse(); }
  void dispatch(const c10::OperatorHandle&, torch::jit::Stack*) const override { refuse(); }
  void reportErrorCallback(PyObject*, c10::DispatchKey) const override { refuse(); }
  void python_op_registration_trampoline(const c10::OperatorHandle&, c10::DispatchKey,
                                         c10::DispatchKeySet, torch::jit::Stack*, bool,
                                         bool) const override {
    refuse();
  }
  void throw_abstract_impl_not_imported_error(std::string, const char*,
                                              const char*) const override {
    refuse();
  }
  void python_dispatcher(const c10::OperatorHandle&, c10::DispatchKeySet,
                         torch::jit::Stack*) const override {
    refuse();
  }
  bool is_contiguous(const c10::TensorImpl*, at::MemoryFormat) const override { refuse(); }
  c10::SymBool sym_is_contiguous(const c10::TensorImpl*, at::MemoryFormat) const override {
    refuse();
  }
  bool is_strides_like(const c10::TensorImpl*, at::MemoryFormat) const override { refuse(); }
  bool is_non_overlapping_and_dense(const c10::TensorImpl*) const override { refuse(); }
  c10::Device device(const c10::TensorImpl*) const override { refuse(); }
  int64_t dim(const c10::TensorImpl*) const override { refuse(); }
  c10::IntArrayRef strides(const c10::TensorImpl*) const override { refuse(); }
  c10::IntArrayRef sizes(const c10::TensorImpl*) const override { refuse(); }
  c10::SymIntArrayRef sym_sizes(const c10::TensorImpl*) const override { refuse(); }
  c10::Layout layout(const c10::TensorImpl*) const override { refuse(); }
  int64_t numel(const c10::TensorImpl*) const override { refuse(); }
  c10::SymInt sym_numel(const c10::TensorImpl*) const override { refuse(); }
  c10::SymIntArrayRef sym_strides(const c10::TensorImpl*) const override { refuse(); }
  c10::SymInt sym_storage_offset(const c10::TensorImpl*) const override { refuse(); }
  void reset_backward_hooks(const c10::TensorImpl*) const override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    TORCH_CHECK(false, "streamguard's trace sink was asked for something other than a trace");
  }
};

}  // namespace streamguard::hooks
