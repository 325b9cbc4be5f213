"""What collectives and training schemes must send at least, per rank.

Source:
    Ring and exchange costs: Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective
    Communication Operations in MPICH", section 4; the bus-bandwidth factors of nccl-tests are
    the same numbers. Schemes: ZeRO, Rajbhandari et al. 2020, section 7. We differ in the exact
    (N - 1) / N where ZeRO counts in whole parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

# One rank's traffic as a multiple of the payload, for a group of n. The payload is the whole
# tensor: what all_gather returns, what reduce_scatter takes.
_ALL = ("all_gather", "reduce_scatter", "all_to_all")
_WHOLE = ("broadcast", "reduce", "send")


def wire_factor(op: str, group_size: int) -> Fraction:
    """Bytes that one rank of `group_size` sends for each payload byte, by the best algorithm.

    Of rooted ops it is the root's or a forwarding rank's share, which is what limits the time.
    """
    if group_size < 2:
        return Fraction(0)
    part = Fraction(group_size - 1, group_size)
    if op.startswith("all_reduce"):
        return 2 * part
    if op.startswith(_ALL) or op.startswith(("gather", "scatter")):
        return part
    return Fraction(1) if op in _WHOLE else Fraction(0)


def bus_factor(op: str, group_size: int) -> Fraction:
    """Bus bandwidth by algorithm bandwidth, as nccl-tests define it.

    It is the wire factor, but counts what one link carries: also where a rank only receives.
    """
    is_receive = op.startswith("recv")
    return Fraction(1) if is_receive and group_size > 1 else wire_factor(op, group_size)


def payload_bytes(op: str, input_bytes: int, output_bytes: int, group_size: int) -> int:
    """The size that `wire_factor` multiplies: the whole tensor that the group works on."""
    if op.startswith("gather"):
        return input_bytes * group_size
    if op.startswith("scatter"):
        return output_bytes * group_size
    return max(input_bytes, output_bytes)


def wire_bytes(op: str, input_bytes: int, output_bytes: int, group_size: int) -> Fraction:
    """What one rank sends for one call."""
    payload = payload_bytes(op, input_bytes, output_bytes, group_size)
    return payload * wire_factor(op, group_size)


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a job divides its training state.

    Attributes:
        name: DDP, ZeRO-0 to ZeRO-3, FSDP, or unknown.
        ranks: N, the size of the data-parallel group.
        parameters: P, trainable elements of one model replica's part in that group.
        accumulation: Micro-batches for each optimizer step.
        gathers: How often each micro-batch needs the sharded parameters (ZeRO-3, FSDP).
        settings: What the library was told, for the reasons in findings.
    """

    name: str
    ranks: int
    parameters: int
    accumulation: int = 1
    gathers: int = 2
    settings: tuple[tuple[str, object], ...] = ()

    @property
    def is_sharded(self) -> bool:
        """Whether a rank needs the reduced gradients of its own shard only."""
        return self.name in ("ZeRO-1", "ZeRO-2", "ZeRO-3", "FSDP")

    @property
    def shards_parameters(self) -> bool:
        """Whether parameters are gathered for every use."""
        return self.name in ("ZeRO-3", "FSDP")

    def gradient_minimum(self, item_bytes: int) -> Fraction:
        """Bytes that one rank must send to reduce the gradients of one step."""
        part = Fraction(self.ranks - 1, self.ranks) * self.parameters * item_bytes
        if not self.is_sharded:
            return 2 * part
        # Where gradients are sharded as well, nothing can hold a sum over micro-batches.
        return part if self.name == "ZeRO-1" else part * self.accumulation

    def parameter_minimum(self, item_bytes: int) -> Fraction:
        """Bytes that one rank must send so that all have the parameters of one step."""
        if not self.is_sharded:
            return Fraction(0)
        part = Fraction(self.ranks - 1, self.ranks) * self.parameters * item_bytes
        return part * self.gathers * self.accumulation if self.shards_parameters else part
