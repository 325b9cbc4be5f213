"""Which engines a reducer of ours can take over; every other one is refused before it trains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamguard.deepspeed.configuration import parse_release
from streamguard.errors import UnsupportedReducerError


@dataclass(frozen=True, slots=True)
class Support:
    """What one value of STREAMGUARD_REDUCER can do.

    Attributes:
        reducer: The value.
        first_release: Earlier ones are refused.
        last_minor: Newest minor release whose code was read; another one may keep its state
            elsewhere.
        methods: Methods that `DeepSpeedZeroOptimizer` has to define itself.
        verb: What the reducer does with an optimizer, as in "repairs".
    """

    reducer: str
    first_release: tuple[int, int, int]
    last_minor: tuple[int, int]
    methods: tuple[str, ...]
    verb: str

    def check_release(self, text: str, owner: type) -> None:
        """Refuse a release of DeepSpeed whose reducer is not known.

        Args:
            text: DeepSpeed's version.
            owner: `DeepSpeedZeroOptimizer`.

        Raises:
            UnsupportedReducerError: the release is too old or too new, or lacks a method.
        """
        release = parse_release(text)
        if release < self.first_release or release[:2] > self.last_minor:
            first, last = (
                ".".join(map(str, self.first_release)),
                ".".join(map(str, self.last_minor)),
            )
            raise self._refusal(f"DeepSpeed {text}", f"knows {first} to {last}.x")
        missing = [name for name in self.methods if name not in vars(owner)]
        if missing:
            found = f"DeepSpeed {text} without {', '.join(missing)}"
            raise self._refusal(found, "needs these methods")

    def check_engine(self, engine: object, *, is_taken_over: bool) -> None:
        """Refuse an engine whose gradients another part of DeepSpeed reduces.

        Args:
            engine: A `DeepSpeedEngine` after its construction.
            is_taken_over: Whether its optimizer passed `check_optimizer`.

        Raises:
            UnsupportedReducerError: naming the ZeRO stage, the optimizer or the setting.
        """
        optimizer = getattr(engine, "optimizer", None)
        if optimizer is None:
            return  # it never trains, as the reference model of a preference run
        if not is_taken_over:
            stage = int(engine.zero_optimization_stage())  # type: ignore[attr-defined]  # engine's
            raise self._refusal(
                f"ZeRO stage {stage} with {type(optimizer).__name__}",
                f"{self.verb} stage 1 and 2 with DeepSpeedZeroOptimizer",
            )
        config = getattr(engine, "_config", None)
        if getattr(getattr(config, "compile_config", None), "deepcompile", False):
            raise self._refusal(
                "compile.deepcompile: true", "cannot order what a compiled graph reduces"
            )
        if self.reducer == "own" and not getattr(config, "managed_gradient_accumulation", True):
            raise self._refusal(
                "managed_gradient_accumulation: false", "needs to know where a step ends"
            )

    def check_optimizer(self, optimizer: object) -> None:
        """Refuse settings under which the reducer works in another way.

        Args:
            optimizer: A `DeepSpeedZeroOptimizer` after its construction.

        Raises:
            UnsupportedReducerError: naming all of them.
        """
        found = list(_unsupported(optimizer))
        if self.reducer == "own":
            found += _unsupported_by_own(optimizer)
        if found:
            raise self._refusal(", ".join(found), "supports ZeRO stage 1 and 2 without these")

    def _refusal(self, found: str, limit: str) -> UnsupportedReducerError:
        return UnsupportedReducerError(self.reducer, found, limit)


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


def _unsupported_by_own(optimizer: object) -> Iterator[str]:
    if getattr(optimizer, "sequence_parallel_size", 1) != 1:
        yield "sequence parallelism"
    # With torch_autocast each parameter has a communication dtype of its own.
    if len(getattr(optimizer, "ipg_buckets", ())) != 1:
        yield "several communication dtypes (torch_autocast)"
    groups = getattr(optimizer, "bit16_groups", ())
    if len({parameter.dtype for group in groups for parameter in group}) > 1:
        yield "parameters of several dtypes"


REPAIR = Support(
    reducer="repair",
    first_release=(0, 9, 5),
    last_minor=(0, 19),
    methods=(
        "average_tensor",
        "get_grad_norm_direct",
        "reduce_independent_p_g_buckets_and_remove_grads",
        "reduce_ipg_grads",
        "scaled_global_norm",
    ),
    verb="repairs",
)

OWN = Support(
    reducer="own",
    first_release=(0, 18, 0),
    last_minor=(0, 19),
    methods=(
        "get_grad_norm_direct",
        "independent_gradient_partition_epilogue",
        "reduce_gradients",
        "reduce_independent_p_g_buckets_and_remove_grads",
        "scaled_global_norm",
        "setup_buckets",
        "step",
    ),
    verb="reduces gradients of",
)
