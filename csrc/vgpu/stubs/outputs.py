"""Functions of the stub libraries whose callers read what they write.

A stub that succeeds must not leave such an output unwritten: a size becomes 0, a handle, which
callers only pass on, 1; a count or a result is refused with the library's own "not supported".
Rules are for names, so that a new release needs no edit; argument positions are those of NVIDIA's
public documentation of each library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Written:
    """What a stub writes: `value` through the pointers that are its arguments of these numbers."""

    positions: tuple[int, ...]
    c_type: str
    value: int = 0


# The first pattern that matches the whole name counts.
_WRITTEN: tuple[tuple[str, Written], ...] = (
    (r"cudnnBackendCreateDescriptor", Written((2,), "unsigned long", 1)),
    (r"cufftCreate", Written((1,), "int", 1)),
    (r"(cublas|cudnn|cusolverDn|cusparse|nvrtc)\w*[cC]reate\w*", Written((1,), "unsigned long", 1)),
    (r"cublasGet(Math|Pointer)Mode(_v2)?", Written((2,), "int")),
    (r"cufftXtMakePlanMany", Written((13,), "unsigned long")),
    (r"cusolverDnXpotrf_bufferSize", Written((9, 10), "unsigned long")),
    (r"cusolverDnXgeqrf_bufferSize", Written((11, 12), "unsigned long")),
    (r"cusolverDnX(syevd|syevBatched|sytrs)_bufferSize", Written((12, 13), "unsigned long")),
    (r"cusolverDnXgeev_bufferSize", Written((18, 19), "unsigned long")),
    (r"cusolverDn[SDCZ]gesvd_bufferSize", Written((4,), "int")),
    (r"cusolverDn[SDCZ]sytrf_bufferSize", Written((5,), "int")),
    (r"cusolverDn[SDCZ](potrf|getrf|geqrf)_bufferSize", Written((6,), "int")),
    (r"cusolverDn[SDCZ](or|un)gqr_bufferSize", Written((8,), "int")),
    (r"cusolverDn[SDCZ](sy|he)ev(d|jBatched)_bufferSize", Written((8,), "int")),
    (r"cusolverDn[SDCZ](or|un)mqr_bufferSize", Written((12,), "int")),
    (r"cusolverDn[SDCZ]gesvdjBatched_bufferSize", Written((12,), "int")),
    (r"cusolverDn[SDCZ]gesvdj_bufferSize", Written((13,), "int")),
    (r"cusolverDn[SDCZ]gesvdaStridedBatched_bufferSize", Written((17,), "int")),
    (r"cusparseXbsrs[mv]2_zeroPivot", Written((3,), "int", -1)),
    (r"cusparseX(coo|csr)sort_bufferSizeExt", Written((7,), "unsigned long")),
    (r"cusparseSp(MV|SV)_bufferSize", Written((10,), "unsigned long")),
    (r"cusparse(SpMM|SDDMM|SpSM)_bufferSize", Written((11,), "unsigned long")),
    (r"cusparseSpGEMM_(workEstimation|compute)", Written((12,), "unsigned long")),
    (r"cusparse[SDCZ]bsrsv2_bufferSize", Written((12,), "int")),
    (r"cusparse[SDCZ]bsrsm2_bufferSize", Written((14,), "int")),
    (r"cusparse[SDCZ]csrgeam2_bufferSizeExt", Written((20,), "unsigned long")),
    (r"cusparseLtMatmulGetWorkspace", Written((3,), "unsigned long")),
)

# By stem of the library: names whose results cannot be made up, and what refusing them answers.
# The first pattern that matches the whole name counts.
_REFUSED: dict[str, tuple[tuple[str, int], ...]] = {
    "cublasLt": ((r".*GetAttribute", 15),),
    "cudnn": ((r".*Get.*|.*Find.*", 3000),),
    "cufile": ((r"cuFile(Read|Write)", -1), (r".*", 5001)),
    "cusolver": ((r".*_bufferSize", 9),),
    "cusparse": ((r".*_bufferSize(Ext)?|.*Get(Size|Attribute)|.*Nnz|.*Sort.*|.*sort", 10),),
    "cusparseLt": ((r".*GetAttribute|.*CompressedSize\d*", 10),),
    # A null pointer, "not initialised", a count that no team has, "not supported".
    "nvshmem_host": (
        (r"nvshmem_malloc|nvshmemx?_(mc_)?ptr|nvshmemid_init_status", 0),
        (r".*_n_pes", -1),
        (r".*", 3),
    ),
}


def written_by(name: str) -> Written | None:
    """What the stub of a function writes, None if its callers read nothing."""
    for pattern, written in _WRITTEN:
        if re.fullmatch(pattern, name):
            return written
    return None


def refusal_of(stem: str, name: str) -> int | None:
    """The status with which a function of a library is refused, None if it may succeed."""
    if written_by(name) is not None:
        return None
    for pattern, status in _REFUSED.get(stem, ()):
        if re.fullmatch(pattern, name):
            return status
    return None
