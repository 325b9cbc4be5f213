"""Learns how a job divides its training state, from DDP, FSDP and DeepSpeed as they are set up."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from streamguard.import_hooks import after_import

Undo = Callable[[], None]
Method = Callable[..., object]


class Listener:
    """Told about schemes, optimizers and steps; recording.py implements it."""

    def on_scheme(self, note: dict[str, object]) -> None:
        """A model was wrapped."""

    def on_optimizer(
        self, groups: list[list[int]], names: list[str], owner: str, peers: list[int]
    ) -> None:
        """An optimizer exists: the element counts of each of its groups' parameters.

        `peers` are the global ranks that take part in its norm reductions.
        """

    def on_role(self, key: str, role: str) -> None:
        """The group with this key is what a library calls dp, pp or tp."""

    def on_step(self, count: int) -> None:
        """`count` optimizer steps are complete."""


def listen(listener: Listener) -> Undo:
    """Wrap what is there and what will be imported. Returns undo."""
    undo: list[Undo] = []
    engines: list[object] = []
    sharded = _Sharded(listener)

    def ddp(module: ModuleType) -> None:
        undo.append(_after(module.DistributedDataParallel, "__init__", lambda model, _: (
            listener.on_scheme(_wrapped("DDP", model, model.process_group)))))  # fmt: skip

    def fsdp(module: ModuleType) -> None:
        undo.append(_after(module.FullyShardedDataParallel, "__init__", lambda model, _: (
            listener.on_scheme(_wrapped("FSDP", model, model.process_group)))))  # fmt: skip

    def deepspeed(module: ModuleType) -> None:
        engine = module.DeepSpeedEngine

        def made(engine: object, _: object) -> None:
            engines.append(type(engine).__name__)
            for key, role in _roles(engine):
                listener.on_role(key, role)
            listener.on_scheme(_of_engine(engine))
            _tell_groups(listener, engine)

        def stepped(engine: object, _: object) -> None:
            listener.on_step(int(engine.global_steps))  # type: ignore[attr-defined]

        undo.append(_after(engine, "__init__", made))
        undo.append(_after(engine, "_take_model_step", stepped))

    undo.append(after_import("torch.nn.parallel.distributed", ddp))
    undo.append(after_import("torch.distributed.fsdp.fully_sharded_data_parallel", fsdp))
    undo.append(after_import("torch.distributed.fsdp._fully_shard._fully_shard", lambda _: (
        undo.append(_fully_shard(sharded)))))  # fmt: skip
    undo.append(after_import("deepspeed.runtime.engine", deepspeed))

    def own(module: ModuleType) -> None:
        original: Method = module.ZeroOptimizer.__init__

        def wrapper(self: Any, *arguments: object, **options: object) -> None:
            original(self, *arguments, **options)
            listener.on_scheme(_of_own_optimizer(self, options.get("stage", 2)))

        module.ZeroOptimizer.__init__ = wrapper
        undo.append(lambda: setattr(module.ZeroOptimizer, "__init__", original))

    undo.append(after_import("streamguard.zero.optimizer", own))
    undo.append(_plain_optimizers(listener, engines, sharded))

    def undo_all() -> None:
        while undo:
            undo.pop()()

    return undo_all


def _after(owner: type, name: str, tell: Callable[[Any, object], object]) -> Undo:
    original: Method | None = vars(owner).get(name)
    if original is None:
        return lambda: None

    def wrapper(self: object, *arguments: object, **options: object) -> object:
        result = original(self, *arguments, **options)
        tell(self, result)
        return result

    wrapper.__name__ = name
    wrapper.__doc__ = original.__doc__
    setattr(owner, name, wrapper)
    return lambda: setattr(owner, name, original) if vars(owner).get(name) is wrapper else None


def _count(parameters: Iterable[Any]) -> int:
    """Trainable elements; of a parameter that ZeRO-3 has divided, those of the whole."""
    total = 0
    for parameter in parameters:
        if parameter.requires_grad:
            total += int(getattr(parameter, "ds_numel", 0) or parameter.numel())
    return total


def _wrapped(name: str, model: object, group: object) -> dict[str, object]:
    parameters = list(model.parameters())  # type: ignore[attr-defined]  # a Module
    size = int(group.size())  # type: ignore[attr-defined]  # a ProcessGroup
    total = _count(parameters)
    if name == "FSDP":
        total *= size  # flat parameters are sharded already
    return {"name": name, "ranks": size, "parameters": total}


class _Sharded:
    """What FSDP2 has announced, and how many backward passes a step has: nobody is told of them."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._note: dict[str, object] = {}
        self._accumulation = 1
        self._passes = 0

    def announce(self, note: dict[str, object]) -> None:
        self._note = note
        self._listener.on_scheme(note)

    def passed_backward(self, _state: object, _result: object) -> None:
        self._passes += 1

    def stepped(self) -> None:
        """The step with the most passes counts: the last one of an epoch may have fewer."""
        passes, self._passes = self._passes, 0
        if self._note and passes > self._accumulation:
            self._accumulation = passes
            self.announce({**self._note, "accumulation": passes})


def _fully_shard(sharded: _Sharded) -> Undo:
    # The root is known only at its first forward; its lazy initialisation is the earliest point.
    try:
        from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState
    except ImportError:
        return lambda: None

    def initialised(state: object, _: object) -> None:
        if getattr(state, "_streamguard_told", False) or not getattr(state, "_is_root", False):
            return
        state._streamguard_told = True  # type: ignore[attr-defined]
        modules = getattr(state, "_modules", ())
        parameters = {id(p): p for m in modules for p in m.parameters()}
        ranks, gathers = 1, 1
        for parameter in parameters.values():
            mesh = getattr(parameter, "device_mesh", None)
            if mesh is not None:
                ranks = int(mesh.size(mesh.ndim - 1))
        for other in getattr(getattr(state, "_state_ctx", None), "all_states", [state]):
            for group in _parameter_groups(other):
                if getattr(group, "_reshard_after_forward", False):
                    gathers = 2
        # A DTensor's numel is that of the whole.
        total = _count(parameters.values())
        sharded.announce({"name": "FSDP", "ranks": ranks, "parameters": total, "gathers": gathers})

    undo = _after(FSDPState, "_lazy_init", initialised)
    undo_passes = _after(FSDPState, "_root_post_backward_final_callback", sharded.passed_backward)

    def undo_both() -> None:
        undo_passes()
        undo()

    return undo_both


def _parameter_groups(state: object) -> list[object]:
    many = getattr(state, "_fsdp_param_groups", None)
    if many is not None:
        return list(many)
    one = getattr(state, "_fsdp_param_group", None)
    return [] if one is None else [one]


_SETTINGS = (
    "reduce_scatter", "overlap_comm", "contiguous_gradients", "round_robin_gradients",
    "reduce_bucket_size", "allgather_bucket_size", "use_multi_rank_bucket_allreduce",
    "param_persistence_threshold",
)  # fmt: skip


def _of_engine(engine: object) -> dict[str, object]:
    stage = int(engine.zero_optimization_stage())  # type: ignore[attr-defined]
    zero = getattr(getattr(engine, "_config", None), "zero_config", None)
    settings = {n: getattr(zero, n) for n in _SETTINGS if hasattr(zero, n)}
    version = ""
    library = sys.modules.get("deepspeed")
    version = str(getattr(library, "__version__", ""))
    return {
        "name": f"ZeRO-{stage}",
        "library": f"DeepSpeed {version}",
        "ranks": int(engine.dp_world_size),  # type: ignore[attr-defined]
        "parameters": _count(engine.module.parameters()),  # type: ignore[attr-defined]
        "accumulation": int(engine.gradient_accumulation_steps()),  # type: ignore[attr-defined]
        "settings": {k: v for k, v in settings.items() if isinstance(v, (bool, int, float, str))},
    }


def _of_own_optimizer(optimizer: Any, stage: object) -> dict[str, object]:
    import torch.distributed as distributed

    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    reducer = optimizer.reducer
    sizes = {distributed.get_world_size(key.process_group) for key in reducer.spaces}
    return {
        "name": f"ZeRO-{stage}",
        "library": "streamguard.zero",
        "ranks": max(sizes),
        "parameters": _count(parameters),
    }


def _roles(engine: object) -> Iterable[tuple[str, str]]:
    """The groups of an engine by what it uses them for; the whole world keeps its name."""
    seen: set[str] = {"0"}
    for group, role in _groups(engine):
        key = getattr(group, "group_name", None)
        if isinstance(key, str) and key not in seen:
            seen.add(key)
            yield key, role


def _groups(engine: object) -> list[tuple[object, str]]:
    grid = getattr(engine, "grid", None) or getattr(engine, "mpu", None)
    found = [
        (getattr(engine, "data_parallel_group", None), "dp"),
        (getattr(engine, "seq_data_parallel_group", None), "dp"),
    ]
    for method, role in (
        ("get_pipe_parallel_group", "pp"),
        ("get_tensor_model_parallel_group", "tp"),
        ("get_model_parallel_group", "mp"),
        ("get_slice_parallel_group", "tp"),
    ):
        ask = getattr(grid, method, None)
        if callable(ask):
            found.append((ask(), role))
    return [(group, role) for group, role in found if group is not None]


def _tell_groups(listener: Listener, engine: object) -> None:
    """The optimizer's groups as the reducer will walk them, with the clean BF16_Optimizer told."""
    optimizer = getattr(engine, "optimizer", None)
    if optimizer is None:
        return
    owner = type(optimizer).__name__
    groups: list[list[int]] = []
    for attribute in ("bit16_groups", "fp16_groups"):
        found = getattr(optimizer, attribute, None)
        if found:
            groups = [[int(getattr(p, "ds_numel", 0) or p.numel()) for p in g] for g in found]
            break
    else:
        inner = getattr(optimizer, "optimizer", optimizer)
        groups = [[int(p.numel()) for p in g["params"]] for g in inner.param_groups]
    names = [_group_name(group) for group in getattr(optimizer, "param_groups", [])]
    import torch.distributed as distributed

    peers: set[int] = set()
    for group, _ in _groups(engine):
        peers.update(distributed.get_process_group_ranks(group))
    listener.on_optimizer(groups, names, owner, sorted(peers))


def _group_name(group: object) -> str:
    if not isinstance(group, dict):
        return ""
    name = group.get("name")
    if isinstance(name, str):
        return name
    decay = group.get("weight_decay")
    return "" if decay is None else ("no_decay" if decay == 0 else f"decay {decay:g}")


def _plain_optimizers(listener: Listener, engines: list[object], sharded: _Sharded) -> Undo:
    """Steps of torch optimizers; DeepSpeed's engine counts for itself and overrules."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    count = [0]
    first: list[weakref.ref[object]] = []

    def stepped(optimizer: object, args: object, kwargs: object) -> None:
        if engines:
            return  # an engine counts for itself, and steps once for each group
        # One optimizer may wrap another, and a program may have several: the first one counts.
        if first and first[0]() is not optimizer:
            return
        if not first:
            first.append(weakref.ref(optimizer))
        count[0] += 1
        sharded.stepped()
        listener.on_step(count[0])

    handle = register_optimizer_step_post_hook(stepped)
    return lambda: handle.remove()
