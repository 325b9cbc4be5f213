"""What a collective is for, told from the Python functions that led to it."""

from __future__ import annotations

from collections.abc import Sequence

from streamguard.collectives.record import BACKWARD, Frame

# Names of DeepSpeed (0.9.5 to 0.19.8), FSDP, DDP and Megatron; the innermost frame that fits any
# decides. Private methods carry their class in the name, so the ends are compared.
_NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "norm",
        (
            "get_grad_norm_direct", "scaled_global_norm", "get_global_norm",
            "get_global_norm_of_tensors", "get_grad_norm", "clip_grad_norm_", "clip_grad_norm",
            "complete_grad_norm_calculation_for_cpu_offload", "get_norm_of_tensors",
            "_get_norm_mask_idx", "get_grad_norm_fp32", "get_flattened_grad_norm", "global_norm",
        ),
    ),
    ("overflow", ("has_overflow", "check_overflow", "_check_overflow", "check_using_norm")),
    (
        "gradients",
        (
            "reduce_ipg_grads", "average_tensor", "allreduce_bucket", "allreduce_and_copy",
            "allreduce_and_scatter", "allreduce_no_retain", "reduce_scatter_coalesced",
            "__reduce_and_partition_ipg_grads", "__avg_scatter_grads",
            "buffered_allreduce_fallback",
            "allreduce_gradients", "_exec_reduce_grads", "_exec_reduce_tied_grads",
            "allreduce_tied_weight_gradients", "foreach_reduce", "_reduce_grad", "post_backward",
            "start_grad_sync", "reduce_bucket", "reduce_gradients", "flush",
            "reduce_scatter_in_place", "reduce_to_owner",
        ),
    ),
    (
        "parameters",
        (
            "all_gather_dp_groups", "all_gather_params", "_all_gather_params_",
            "all_gather_coalesced", "_allgather_params_coalesced", "_allgather_params",
            "foreach_all_gather", "unshard", "_unshard", "start_param_sync", "gather_parameters",
            "all_gather_in_place",
            "_allgather_param", "update_lp_params", "_update_model_bit16_weights",
        ),
    ),
    (
        "setup",
        (
            "initialize", "_broadcast_model", "_sync_module_states", "_verify_param_shape",
            "_sync_params_and_buffers", "_verify_param_shape_across_processes",
            "init_process_group",
        ),
    ),
)  # fmt: skip
_PIPELINE = ("send", "recv", "batch_isend_irecv", "_exec_send_activations", "_exec_send_grads")


def phase_of(frames: Sequence[Frame], op: str, flags: int) -> str:
    """gradients, parameters, norm, overflow, setup, pipeline, forward, backward, step or other."""
    for frame in frames:
        name = frame.function.rsplit(".", 1)[-1]
        for phase, functions in _NAMES:
            if any(name == f or (f.startswith("__") and name.endswith(f)) for f in functions):
                return phase
    if op in ("send", "recv", "recv_any_source"):
        return "pipeline"
    names = [frame.function.rsplit(".", 1)[-1] for frame in frames]
    if flags & BACKWARD:
        # DDP's reducer calls from autograd's own thread, where no Python runs.
        is_reduction = op.startswith(("all_reduce", "reduce_scatter"))
        return "gradients" if is_reduction and "forward" not in names else "backward"
    for name in names:
        if name == "__init__":
            return "setup"
        if name in ("forward", "backward", "step"):
            return name
    return "other"


_LIBRARY = (
    "/streamguard/collectives/",
    "/torch/",
    "/deepspeed/comm/",
    "/deepspeed/utils/",
    "/contextlib.py",
)


# DeepSpeed's own one-line wrappers: the caller says what the call is for.
_WRAPPERS = ("_model_parallel_all_reduce",)


def call_site(frames: Sequence[Frame]) -> Frame | None:
    """The line that asked for a collective: the innermost one outside the communication layers."""
    for frame in frames:
        is_wrapper = frame.function.rsplit(".", 1)[-1] in _WRAPPERS
        if not is_wrapper and not any(part in frame.file for part in _LIBRARY):
            return frame
    return frames[0] if frames else None


def user_site(frames: Sequence[Frame]) -> Frame | None:
    """The program's own line behind it, where it is among the frames."""
    for frame in frames:
        is_installed = "/site-packages/" in frame.file or "/.deepspeed/" in frame.file
        if not is_installed and not any(part in frame.file for part in _LIBRARY):
            return frame
    return None


def place(frames: Sequence[Frame], *, fallback: str = "no Python frame (autograd thread)") -> str:
    """Both in one line: `stage_1_and_2.py:1893 in get_grad_norm_direct, from train.py:20`."""
    site = call_site(frames)
    if site is None:
        return fallback
    user = user_site(frames)
    text = f"{_short(site.file)}:{site.line} in {site.function.rsplit('.', 1)[-1]}"
    if user is not None and user != site:
        text += f", from {_short(user.file)}:{user.line}"
    return text


def _short(file: str) -> str:
    return file.rsplit("/", 1)[-1]
