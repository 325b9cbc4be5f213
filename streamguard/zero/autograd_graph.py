"""Which leaves a loss depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def reachable_leaves(loss: Tensor) -> set[int]:
    """Return `id` of every leaf that the loss's graph ends in.

    The graph of an activation checkpoint is made during backward only; with use_reentrant=False its
    leaves are seen nevertheless, because the outer graph holds them.
    """
    leaves = set()
    seen = set()
    waiting = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.add(id(variable))
        waiting += [function for function, _ in node.next_functions]
    return leaves
