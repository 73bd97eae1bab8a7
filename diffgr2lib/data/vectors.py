"""Item vectors that semantic ids are made from: the user's own, or those of the items' texts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from threadpoolctl import threadpool_limits

from diffgr2lib.data.types import Item
from diffgr2lib.errors import DataError

VECTORS = "vectors.npy"
WIDTH = 64


def item_vectors(folder: Path, items: Sequence[Item]) -> np.ndarray:
    """Vectors [N, D] of the items: `vectors.npy` (row n is item n + 1) where it is, else texts'."""
    path = folder / VECTORS
    return read_vectors(path, len(items)) if path.exists() else text_vectors(folder, items)


def read_vectors(path: Path, items: int) -> np.ndarray:
    """A table of numbers [items, D]. Raises `DataError` for anything else; no pickle is read."""
    try:
        with path.open("rb") as file:
            found = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{path} is no table of numbers ({error}); write it with numpy.save."
        ) from error
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.shape[0] != items:
        shape = getattr(found, "shape", "no one")
        raise DataError(f"{path} has shape {shape}; give one row for each of {items} items.")
    if not np.issubdtype(found.dtype, np.number) or not np.isfinite(found).all():
        raise DataError(f"{path} must hold finite numbers alone.")
    return found.astype(np.float64)


def text_vectors(folder: Path, items: Sequence[Item]) -> np.ndarray:
    """Words and word pairs of title, brand and category, weighed by rarity, in 64 dimensions.

    TF-IDF and a truncated SVD of scikit-learn. Vectors of a language model, saved as `vectors.npy`,
    group items by meaning rather than by words.
    """
    texts = [f"{item.title} {item.brand} {item.category}" for item in items]
    try:
        table = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit_transform(texts)
    except ValueError as error:  # no words at all
        raise DataError(
            f"{folder}: semantic ids cannot be made: no item has a title, brand or category with a"
            f" word in it. Give 'sid' for all items, or their vectors as {VECTORS}."
        ) from error
    width = min(WIDTH, table.shape[1] - 1, len(items) - 1)
    if width < 1:
        return table.toarray()
    with threadpool_limits(1):  # sums over threads would depend on their number
        return TruncatedSVD(width, random_state=0).fit_transform(table)
