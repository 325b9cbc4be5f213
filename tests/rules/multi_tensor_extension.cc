// An extension with the functions of apex's `amp_C` and DeepSpeed's `fused_adam` and `cpu_adam`
// that tests call: the same names, signatures and accesses, with what nvcc's host code does for
// their kernels. The kernels are host twins (`extension_kernels.py`). One file, importable by all
// names.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace py = pybind11;

struct Dim3 {
  unsigned x, y, z;
};

extern "C" {
int cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared,
                     void* stream);
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int thread_limit, void*, void*, void*, void*, int*);
}

namespace {

using Tensors = std::vector<py::object>;
using TensorLists = std::vector<Tensors>;

// Their addresses stand for the kernels.
const char kAdam = 0, kScale = 0, kNorm = 0, kOther = 0;

void register_kernels() {
  static const bool done = [] {
    void** binary = __cudaRegisterFatBinary(nullptr);
    for (auto [stub, name] : {std::pair{&kAdam, "adam_kernel"}, std::pair{&kScale, "scale_kernel"},
                              std::pair{&kNorm, "norm_kernel"}, std::pair{&kOther, "other_kernel"}})
      __cudaRegisterFunction(binary, stub, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr,
                             nullptr);
    __cudaRegisterFatBinaryEnd(binary);
    return true;
  }();
  (void)done;
}

void* address_of(const py::object& tensor) {
  return reinterpret_cast<void*>(tensor.attr("data_ptr")().cast<size_t>());
}

template <typename... Values>
void launch(const char& kernel, const py::object& tensor, Values... values) {
  const auto device = tensor.attr("device").attr("index");
  const auto stream =
      py::module_::import("torch").attr("_C").attr("_cuda_getCurrentRawStream")(device);
  std::array<void*, sizeof...(values)> arguments{&values...};
  cudaLaunchKernel(&kernel, {1, 1, 1}, {1, 1, 1}, arguments.data(), 0,
                   reinterpret_cast<void*>(stream.cast<size_t>()));
}

long size_of(const py::object& tensor) { return tensor.attr("numel")().cast<long>(); }

void multi_tensor_adam(int, py::object, TensorLists lists, float lr, float beta1, float beta2,
                       float epsilon, int step, int mode, int bias_correction, float decay) {
  for (size_t i = 0; i < lists[0].size(); ++i)
    launch(kAdam, lists[0][i], address_of(lists[0][i]), address_of(lists[1][i]),
           address_of(lists[2][i]), address_of(lists[3][i]), size_of(lists[0][i]), lr, beta1, beta2,
           epsilon, step, mode, bias_correction, decay);
}

void multi_tensor_scale(int, py::object flag, TensorLists lists, float scale) {
  for (size_t i = 0; i < lists[0].size(); ++i)
    launch(kScale, flag, address_of(lists[0][i]), address_of(lists[1][i]), size_of(lists[0][i]),
           scale);
}

py::tuple multi_tensor_l2norm(int, py::object flag, TensorLists lists, py::object) {
  const py::module_ torch = py::module_::import("torch");
  const py::object norm = torch.attr("empty")(1, py::arg("device") = flag.attr("device"));
  launch(kNorm, flag, address_of(lists[0][0]), size_of(lists[0][0]), address_of(norm));
  return py::make_tuple(norm, torch.attr("empty")(0));
}

void multi_tensor_other(int, py::object flag, TensorLists lists) {
  launch(kOther, flag, address_of(lists[0][0]));
}

float* floats_of(const py::object& tensor) { return static_cast<float*>(address_of(tensor)); }

void adam_update(int, int step, float lr, float beta1, float beta2, float epsilon, float decay,
                 bool corrects, py::object parameter, py::object gradient, py::object first,
                 py::object second) {
  float *p = floats_of(parameter), *g = floats_of(gradient);
  float *m = floats_of(first), *v = floats_of(second);
  const float mean = corrects ? 1 - std::pow(beta1, step) : 1;
  const float square = corrects ? 1 - std::pow(beta2, step) : 1;
  for (long i = 0; i < size_of(parameter); ++i) {
    m[i] += (1 - beta1) * (g[i] - m[i]);
    v[i] += (1 - beta2) * (g[i] * g[i] - v[i]);
    p[i] -= lr * (m[i] / mean / (std::sqrt(v[i] / square) + epsilon) + decay * p[i]);
  }
}

void create_adam(int, float, float, float, float, float, bool, bool) {}
void destroy_adam(int) {}

void define(py::module_& module) {
  register_kernels();
  module.def("multi_tensor_adam", &multi_tensor_adam);
  module.def("multi_tensor_scale", &multi_tensor_scale);
  module.def("multi_tensor_l2norm", &multi_tensor_l2norm);
  module.def("multi_tensor_other", &multi_tensor_other);
}

}  // namespace

PYBIND11_MODULE(amp_C, module) { define(module); }
PYBIND11_MODULE(fused_adam, module) { define(module); }
PYBIND11_MODULE(cpu_adam, module) {
  module.def("create_adam", &create_adam);
  module.def("destroy_adam", &destroy_adam);
  module.def("adam_update", &adam_update);
}
