"""Names DeepSpeed's buffers, gradients and streams as soon as the program imports DeepSpeed.

The wrapped names are stable from 0.9.5 to 0.19.8; a release that lacks one is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from types import ModuleType

from streamguard import session
from streamguard.deepspeed import configuration, gradient_names, known_races, parameter_names
from streamguard.deepspeed.own.install import is_own
from streamguard.deepspeed.repair.install import is_repaired
from streamguard.deepspeed.stream_names import name_streams_of
from streamguard.import_hooks import after_import
from streamguard.patching import Method, wrap_method

Undo = Callable[[], None]

_STREAM_OWNERS = (
    ("deepspeed.runtime.zero.parameter_offload", "DeepSpeedZeRoOffload"),
    ("deepspeed.runtime.zero.stage_1_and_2", "DeepSpeedZeroOptimizer"),
    ("deepspeed.runtime.zero.stage3", "DeepSpeedZeroOptimizer_Stage3"),
)
_REDUCERS = _STREAM_OWNERS[1:]
# What empties a bucket: in stage 1 and 2, and in stage 3.
_FLUSHES = ("reduce_ipg_grads", "_DeepSpeedZeroOptimizer_Stage3__reduce_and_partition_ipg_grads")


def register_import_hooks() -> Undo:
    """Wrap DeepSpeed's classes now or when they are imported.

    Returns:
        Undo: restores every wrapped method and forgets the waiting hooks.
    """
    undo: list[Undo] = [session.add_annotator(known_races.annotate)]

    def when_imported(module_name: str, class_name: str, patch: Callable[[type], None]) -> None:
        def apply(module: ModuleType) -> None:
            owner = getattr(module, class_name, None)
            if isinstance(owner, type):
                patch(owner)

        undo.append(after_import(module_name, apply))

    def patch_streams(owner: type) -> None:
        undo.append(wrap_method(owner, "__init__", _naming_streams))

    def patch_reducer(owner: type) -> None:
        name = "reduce_independent_p_g_buckets_and_remove_grads"
        undo.append(wrap_method(owner, name, gradient_names.naming_reduce))
        for flush in _FLUSHES:
            undo.append(wrap_method(owner, flush, gradient_names.noting_reduction))

    def patch_engine(owner: type) -> None:
        undo.append(wrap_method(owner, "__init__", _learning_configuration))
        undo.append(wrap_method(owner, "step", _counting_steps))

    for module_name, class_name in _STREAM_OWNERS:
        when_imported(module_name, class_name, patch_streams)
    for module_name, class_name in _REDUCERS:
        when_imported(module_name, class_name, patch_reducer)
    when_imported("deepspeed.runtime.engine", "DeepSpeedEngine", patch_engine)

    def undo_all() -> None:
        while undo:
            undo.pop()()

    return undo_all


def _naming_streams(original: Method) -> Method:
    def wrapper(self: object, *arguments: object, **options: object) -> None:
        original(self, *arguments, **options)
        name_streams_of(self)

    return wrapper


def _learning_configuration(original: Method) -> Method:
    def wrapper(self: object, *arguments: object, **options: object) -> None:
        original(self, *arguments, **options)
        parameter_names.remember(self.module)  # type: ignore[attr-defined]  # DeepSpeedEngine's
        found = configuration.of_engine(self)
        known_races.set_configuration(found)
        session.note("deepspeed", asdict(found))
        optimizer = self.optimizer  # type: ignore[attr-defined]  # DeepSpeedEngine's
        if not is_repaired(optimizer) and not is_own(optimizer):
            known_races.warn_at_start(found)
        session.set_step(self.global_steps)  # type: ignore[attr-defined]  # DeepSpeedEngine's

    return wrapper


def _counting_steps(original: Method) -> Method:
    def wrapper(self: object, *arguments: object, **options: object) -> object:
        result = original(self, *arguments, **options)
        session.set_step(self.global_steps)  # type: ignore[attr-defined]  # DeepSpeedEngine's
        return result

    return wrapper
