"""Which engines can be repaired; every other one is refused by name before it trains."""

from __future__ import annotations

from collections.abc import Iterator

from streamguard.deepspeed.configuration import parse_release
from streamguard.errors import UnsupportedReducerError

FIRST_RELEASE = (0, 9, 5)
# The newest minor release whose code was read; another one may keep its state elsewhere.
LAST_MINOR = (0, 19)

_METHODS = (
    "average_tensor",
    "get_grad_norm_direct",
    "reduce_independent_p_g_buckets_and_remove_grads",
    "reduce_ipg_grads",
    "scaled_global_norm",
)


def check_release(text: str, owner: type) -> None:
    """Refuse a release of DeepSpeed whose reducer is not known.

    Args:
        text: DeepSpeed's version.
        owner: `DeepSpeedZeroOptimizer`.

    Raises:
        UnsupportedReducerError: the release is too old or too new, or lacks a method.
    """
    release = parse_release(text)
    if release < FIRST_RELEASE or release[:2] > LAST_MINOR:
        raise UnsupportedReducerError("repair", f"DeepSpeed {text}", "knows 0.9.5 to 0.19.x")
    missing = [name for name in _METHODS if name not in vars(owner)]
    if missing:
        raise UnsupportedReducerError(
            "repair", f"DeepSpeed {text} without {', '.join(missing)}", "needs these methods"
        )


def check_engine(engine: object, repaired: bool) -> None:
    """Refuse an engine whose gradients another part of DeepSpeed reduces.

    Args:
        engine: A `DeepSpeedEngine` after its construction.
        repaired: Whether its optimizer was repaired.

    Raises:
        UnsupportedReducerError: naming the ZeRO stage, the optimizer or the setting.
    """
    optimizer = getattr(engine, "optimizer", None)
    if optimizer is None:
        return  # it never trains, as the reference model of a preference run
    if not repaired:
        stage = int(engine.zero_optimization_stage())  # type: ignore[attr-defined]  # the engine's
        raise UnsupportedReducerError(
            "repair",
            f"ZeRO stage {stage} with {type(optimizer).__name__}",
            "repairs stage 1 and 2 with DeepSpeedZeroOptimizer",
        )
    compiled = getattr(getattr(engine, "_config", None), "compile_config", None)
    if getattr(compiled, "deepcompile", False):
        raise UnsupportedReducerError(
            "repair", "compile.deepcompile: true", "cannot order what a compiled graph reduces"
        )


def check_optimizer(optimizer: object) -> None:
    """Refuse settings under which the reducer works in another way.

    Args:
        optimizer: A `DeepSpeedZeroOptimizer` after its construction.

    Raises:
        UnsupportedReducerError: naming all of them.
    """
    found = list(_unsupported(optimizer))
    if found:
        raise UnsupportedReducerError(
            "repair", ", ".join(found), "supports ZeRO stage 1 and 2 without these"
        )


def _unsupported(optimizer: object) -> Iterator[str]:
    if getattr(optimizer, "cpu_offload", False):
        yield "zero_optimization.offload_optimizer"
    if getattr(optimizer, "has_moe_layers", False):
        yield "mixture-of-experts parameters"
    if getattr(optimizer, "zenflow", False):
        yield "zero_optimization.zenflow"
    name = type(getattr(optimizer, "optimizer", None)).__name__
    if "muon" in name.lower():
        yield f"optimizer {name}"
