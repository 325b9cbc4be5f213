"""Allocators whose blocks cannot be followed are refused by name."""

from __future__ import annotations

import pytest

from streamguard.errors import UnsupportedAllocatorError
from streamguard.hooks.install import check_allocator


@pytest.mark.parametrize(
    ("backend", "environ", "setting"),
    [
        ("cudaMallocAsync", {}, "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"),
        ("native", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "PYTORCH_NO_CUDA_MEMORY_CACHING=1"),
    ],
)
def test_an_allocator_without_a_trace_is_refused(
    backend: str, environ: dict[str, str], setting: str
) -> None:
    """Without its blocks every reuse would look like a race."""
    with pytest.raises(UnsupportedAllocatorError) as refusal:
        check_allocator(backend, environ)

    assert refusal.value.setting == setting


def test_torchs_own_allocator_is_accepted() -> None:
    """The usual case, whatever else is set."""
    check_allocator("native", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
