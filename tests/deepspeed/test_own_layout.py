"""Where gradients lie in buckets over DeepSpeed's partitions, computed by hand."""

from __future__ import annotations

from streamguard.deepspeed.own.layout import FlatParameter, Run, lay_out_partitions
from streamguard.zero.layout import Bucket, Piece


def test_a_parameter_that_two_ranks_own_has_a_piece_for_each() -> None:
    """Parameters of 6 and 10 elements, two partitions of 8: the second one begins before 8."""
    laid_out = lay_out_partitions(
        [FlatParameter(0, 0, 6), FlatParameter(0, 6, 10)],
        partition_elements=[8],
        bucket_elements=100,
        element_bytes=2,
    )

    assert laid_out.layout.buckets == (
        Bucket(0, 0, 0, 16, 1, (Piece(0, 0, 6, 0), Piece(1, 0, 2, 6), Piece(1, 2, 8, 8))),
    )
    assert laid_out.runs == ((Run(0, 0, 0, 8, 0), Run(1, 0, 0, 8, 8)),)
    assert laid_out.ranges_by_owner(0) == [(0, 0, 8), (1, 8, 8)]
    assert laid_out.layout.bucket_bytes == 32


def test_buckets_are_cut_from_the_last_parameter_s_end_on() -> None:
    """Five elements a bucket: 15 to 11, 10 to 8 beside 7 and 6, and so on."""
    laid_out = lay_out_partitions(
        [FlatParameter(0, 0, 6), FlatParameter(0, 6, 10)],
        partition_elements=[8],
        bucket_elements=5,
        element_bytes=2,
    )

    assert [bucket.pieces for bucket in laid_out.layout.buckets] == [
        (Piece(1, 5, 5, 0),),
        (Piece(1, 0, 2, 0), Piece(1, 2, 3, 2)),
        (Piece(0, 1, 5, 0),),
        (Piece(0, 0, 1, 0),),
    ]
    assert laid_out.runs == (
        (Run(1, 0, 3, 5, 0),),
        (Run(0, 0, 6, 2, 0), Run(1, 0, 0, 3, 2)),
        (Run(0, 0, 1, 5, 0),),
        (Run(0, 0, 0, 1, 0),),
    )


def test_a_bucket_takes_the_gradients_of_all_groups_in_the_order_of_backward() -> None:
    """Weights of 4 in group 0, biases of 2 in group 1, in turn; partitions of 4 and 2."""
    laid_out = lay_out_partitions(
        [
            FlatParameter(0, 0, 4),
            FlatParameter(1, 0, 2),
            FlatParameter(0, 4, 4),
            FlatParameter(1, 2, 2),
        ],
        partition_elements=[4, 2],
        bucket_elements=6,
        element_bytes=2,
    )

    assert laid_out.runs == (
        (Run(1, 0, 0, 4, 0), Run(1, 1, 0, 2, 4)),
        (Run(0, 0, 0, 4, 0), Run(0, 1, 0, 2, 4)),
    )
    assert [laid_out.ranges_by_owner(bucket) for bucket in (0, 1)] == [[(1, 0, 6)], [(0, 0, 6)]]


def test_what_lies_between_aligned_parameters_is_neither_sent_nor_written() -> None:
    """Two parameters of 3 at 0 and 4 in one partition: two runs, one range to reduce."""
    laid_out = lay_out_partitions(
        [FlatParameter(0, 0, 3), FlatParameter(0, 4, 3)],
        partition_elements=[8],
        bucket_elements=100,
        element_bytes=2,
    )

    assert laid_out.runs == ((Run(0, 0, 0, 3, 0), Run(0, 0, 4, 3, 3)),)
    assert laid_out.ranges_by_owner(0) == [(0, 0, 6)]
