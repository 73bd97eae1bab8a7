"""Semantic ids: residual k-means codes of item vectors, one code a level, made unique."""

from collections.abc import Sequence

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from diffgr2lib.errors import DataError


def residual_codes(
    vectors: np.ndarray, levels: int, codes: int, seed: int
) -> list[tuple[int, ...]]:
    """Codes of vectors [N, D]: k-means, then k-means of what it left over, `levels` times.

    Residual quantisation as for the semantic ids of Diffusion-GR2 (arXiv 2607.01170, section 1),
    with scikit-learn's k-means for a learnt quantiser. Not unique: see `make_unique`.
    """
    residual = np.asarray(vectors, dtype=np.float64)
    columns = []
    for level in range(levels):
        count = min(codes, len(np.unique(residual.round(9), axis=0)))
        with threadpool_limits(1):  # sums over threads would depend on their number
            means = KMeans(count, n_init=2, random_state=seed + level).fit(residual)
        columns.append(means.labels_)
        residual = residual - means.cluster_centers_[means.labels_]
    return [tuple(int(code) for code in row) for row in np.stack(columns, axis=1)]


def make_unique(
    sids: Sequence[tuple[int, ...]], codes: int | None = None
) -> tuple[list[tuple[int, ...]], int]:
    """Every later holder of a taken SID moves to the nearest free code of the last level.

    codes: size of the last codebook, by default the largest last code + 1. Returns the SIDs and how
    many moved. First holders keep theirs. Raises `DataError` where a prefix has no free code left.
    """
    size = codes if codes is not None else max(sid[-1] for sid in sids) + 1
    taken = set(sids)
    seen: set[tuple[int, ...]] = set()
    unique = []
    for sid in sids:
        if sid in seen:
            free = [code for code in range(size) if (*sid[:-1], code) not in taken]
            if not free:
                raise DataError(
                    f"More than {size} items share the semantic id prefix {sid[:-1]}; use more"
                    " codes or more levels."
                )
            nearest = min(free, key=lambda code, at=sid[-1]: (abs(code - at), code))  # type: ignore[misc]
            sid = (*sid[:-1], nearest)
            taken.add(sid)
        seen.add(sid)
        unique.append(sid)
    return unique, sum(before != after for before, after in zip(sids, unique, strict=True))
