"""Where gradients lie, computed by hand."""

from __future__ import annotations

import pytest

from streamguard.errors import UsageError
from streamguard.zero.layout import Bucket, ParameterSpec, Piece, Space, build_layout


def spec(
    elements: int, *, space: str = "all", parts: int = 2, element_bytes: int = 4
) -> ParameterSpec:
    return ParameterSpec(elements, space, parts, element_bytes)


def test_the_last_parameter_lies_first_and_a_large_one_goes_on_in_the_next_bucket() -> None:
    """Two ranks, 128 bytes: 32 elements a bucket, cut at whole parts of 8 elements."""
    layout = build_layout([spec(20), spec(40)], bucket_bytes=130)

    assert layout.buckets == (
        Bucket(0, 0, 0, 32, 2, (Piece(1, 0, 32, 0),)),
        Bucket(1, 0, 32, 32, 2, (Piece(1, 32, 8, 0), Piece(0, 0, 20, 8))),
    )
    assert layout.spaces == (Space("all", 2, 4, 64),)
    assert layout.bucket_bytes == 128
    assert [bucket.padding for bucket in layout.buckets] == [0, 4]


def test_a_rank_owns_what_lies_in_its_part_of_each_bucket() -> None:
    """The second half of the second bucket above: 12 of the 20 elements, and padding."""
    bucket = build_layout([spec(20), spec(40)], bucket_bytes=130).buckets[1]

    assert bucket.owned(0) == (Piece(1, 32, 8, 0), Piece(0, 0, 8, 8))
    assert bucket.owned(1) == (Piece(0, 8, 12, 0),)


def test_buckets_of_several_spaces_come_in_the_order_of_their_last_gradient() -> None:
    """Parameters a0 b1 a2 b3: a's bucket ends with parameter 0, b's with parameter 1."""
    layout = build_layout(
        [spec(4, space="a"), spec(4, space="b"), spec(4, space="a"), spec(4, space="b")],
        bucket_bytes=1000,
    )

    assert [bucket.space for bucket in layout.buckets] == [0, 1]
    assert [space.key for space in layout.spaces] == ["b", "a"]
    assert [[piece.parameter for piece in b.pieces] for b in layout.buckets] == [[3, 1], [2, 0]]


@pytest.mark.parametrize(
    ("parameters", "bucket_bytes"), [([], 100), ([spec(0)], 100), ([spec(3)], 0)]
)
def test_nothing_to_lay_out_is_refused(parameters: list[ParameterSpec], bucket_bytes: int) -> None:
    """No parameter, one without elements, and a bucket without bytes."""
    with pytest.raises(UsageError):
        build_layout(parameters, bucket_bytes=bucket_bytes)
