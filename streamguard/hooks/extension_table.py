"""What functions of well-known extensions touch: kernels that torch's dispatcher does not see.

Taken from the sources named with each row. Where a kernel writes under a condition (the flag of a
non-finite value, the momentum of SGD) it counts as writing, as it does in torch's own schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Uses:
    """What one function does with its parameters.

    Attributes:
        parameters: One token per parameter, in order: `r` a tensor that is read, `w` one that is
            written (or both), `.` no memory that a kernel touches, `[rww]` a list of lists of
            tensors, of which the last ones may be missing.
        is_on_host: It runs on the host and returns when it is done; else it launches on the
            current stream of its tensors' device.
        writes_results: It launches what fills the tensors that it returns.
        unseen: What it does besides on streams that nobody can name, if anything.
    """

    parameters: str
    is_on_host: bool = False
    writes_results: bool = False
    unseen: str = ""


# (chunk_size, noop_flag, tensor_lists, ...). A name means the same in the three libraries:
# apex csrc/multi_tensor_*.cu, registered in csrc/amp_C_frontend.cpp; DeepSpeed csrc/adam and
# csrc/lion, multi_tensor_adam.cu and multi_tensor_lion.cu; TransformerEngine
# transformer_engine/common/multi_tensor/*.cu and pytorch/csrc/extensions/multi_tensor/*.cpp.
# Adam's kernels do not look at the flag unless they are capturable.
MULTI_TENSOR: Mapping[str, Uses] = {
    # adam.cu: gradient, parameter, both moments; TransformerEngine: master parameter, too.
    "multi_tensor_adam": Uses(". . [rwwww] . . . . . . . ."),
    # adam.cu of apex and TransformerEngine: the scaled-back gradient is stored as well.
    "multi_tensor_adam_capturable": Uses(". r [wwww] r . . . r . . . r"),
    "multi_tensor_adam_capturable_master": Uses(". r [wwwww] r . . . r . . . r"),
    # adam.cu of TransformerEngine: the fifth list holds the low halves of the parameters.
    "multi_tensor_adam_param_remainder": Uses(". . [rwwww] . . . . . . . ."),
    # adam.cu of TransformerEngine: after the master parameter scale, amax, inverse scale.
    "multi_tensor_adam_fp8": Uses(". . [rwwwwrww] . . . . . . . . ."),
    # multi_tensor_lion.cu of DeepSpeed: gradient, parameter, momentum.
    "multi_tensor_lion": Uses(". . [rww] . . . . ."),
    # sgd_kernel.cu, sgd.cu: gradient, parameter, momentum, and a half-precision copy.
    "multi_tensor_sgd": Uses(". r [rwww] . . . . . . . ."),
    # adagrad.cu of apex: gradient, parameter, sum of squares.
    "multi_tensor_adagrad": Uses(". . [rww] . . . ."),
    # novograd.cu of apex: the norms are updated, and the norm's kernel sets the flag.
    "multi_tensor_novograd": Uses(". w [rww] w . . . . . . . . . ."),
    # lamb.cu of apex: the gradient is replaced by the update; its norms set the flag.
    "multi_tensor_lamb": Uses(". w [wwww] . . . . . . . . . r . ."),
    # lamb_mp.cu of apex: the fifth list is the half-precision copy.
    "multi_tensor_lamb_mp": Uses(". w [wwwww] r . . . r . . . . r r . r r"),
    # lamb_stage_1.cu and lamb_stage_2.cu of apex; the host reads the norm of all gradients.
    "multi_tensor_lamb_stage1_cuda": Uses(". . [rrwww] r . . . . . ."),
    "multi_tensor_lamb_stage2_cuda": Uses(". . [wr] r r . . ."),
    # scale_kernel.cu, scale.cu: input, output.
    "multi_tensor_scale": Uses(". w [rw] ."),
    "multi_tensor_scale_tensor": Uses(". w [rw] r"),
    # axpby_kernel.cu of apex: x, y, output.
    "multi_tensor_axpby": Uses(". w [rrw] . . ."),
    # l2norm_*.cu, l2norm.cu; the norms are returned.
    "multi_tensor_l2norm": Uses(". w [r] .", writes_results=True),
    "multi_tensor_l2norm_mp": Uses(". w [r] .", writes_results=True),
    "multi_tensor_l2norm_scale": Uses(". w [rw] . .", writes_results=True),
    "multi_tensor_unscale_l2norm": Uses(". w [r] r .", writes_results=True),
    # compute_scale.cu of TransformerEngine: amax, scale, inverse scale.
    "multi_tensor_compute_scale_and_scale_inv": Uses(". . [rww] . . ."),
    "multi_tensor_compute_scale_inv_e8m0": Uses(". . [rw]"),
    # update_scale_hysteresis.cu of apex.
    "update_scale_hysteresis": Uses("w w w r . . . ."),
}

_CPU_ADAM = ". . . . . . . . w r w w"

# Functions of DeepSpeed's own extensions, by the name that their builder has.
DEEPSPEED: Mapping[str, Mapping[str, Uses]] = {
    "fused_adam": {"multi_tensor_adam": MULTI_TENSOR["multi_tensor_adam"]},
    "fused_lion": {"multi_tensor_lion": MULTI_TENSOR["multi_tensor_lion"]},
    # csrc/lamb/fused_lamb_cuda.cpp: parameter, copy, both moments, gradient.
    "fused_lamb": {"lamb": Uses("w w w w r" + 11 * " .", writes_results=True)},
    # csrc/adam/cpu_adam_impl.cpp. `adam_update_copy` (to 0.14.2) also copies to the device, on
    # the current stream and on one of its own in turn, and waits for both.
    "cpu_adam": {
        "adam_update": Uses(_CPU_ADAM, is_on_host=True),
        "adam_rollback": Uses(_CPU_ADAM, is_on_host=True),
        "adam_update_copy": Uses(_CPU_ADAM + " .", is_on_host=True, unseen="copies to the device"),
    },
    # csrc/adagrad/cpu_adagrad.cpp.
    "cpu_adagrad": {
        "adagrad_update": Uses(". . . . . w r w", is_on_host=True),
        "adagrad_update_copy": Uses(
            ". . . . . w r w .", is_on_host=True, unseen="copies to the device"
        ),
    },
    # csrc/lion/cpu_lion_impl.cpp.
    "cpu_lion": {
        "lion_update": Uses(". . . . . . w r w", is_on_host=True),
        "lion_update_copy": Uses(
            ". . . . . . w r w .", is_on_host=True, unseen="copies to the device"
        ),
    },
}
