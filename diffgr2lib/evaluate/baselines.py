"""Re-rankers that a user would pick instead, fitted on the same evidence (scikit-learn)."""

from collections.abc import Sequence

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from diffgr2lib.data.evidence import evidence, one_hot
from diffgr2lib.data.scorecard import fit_weights, order_by
from diffgr2lib.data.types import Example


def floor_ranks(examples: Sequence[Example]) -> np.ndarray:
    """1-based rank [N] of the true item in the retriever's order."""
    return np.array([example.target + 1 for example in examples])


def logistic_ranks(train: Sequence[Example], test: Sequence[Example]) -> np.ndarray:
    """Rank [N] of the true item by a conditional logistic regression: the unrounded scorecard."""
    weights = fit_weights(train)
    return _ranks([one_hot(evidence(example)) @ weights for example in test], test)


def boosted_ranks(train: Sequence[Example], test: Sequence[Example], seed: int = 0) -> np.ndarray:
    """Rank [N] of the true item by gradient-boosted trees that classify candidates one by one.

    Beside its evidence, a candidate shows them how it differs from its list's means.
    """
    model = HistGradientBoostingClassifier(
        learning_rate=0.06, max_iter=150, max_leaf_nodes=12, min_samples_leaf=60,
        l2_regularization=1.0, early_stopping=False, random_state=seed,
    )  # fmt: skip
    X = np.concatenate([_in_context(example) for example in train])
    y = np.concatenate([np.arange(len(e.candidates)) == e.target for e in train])
    model.fit(X, y)
    return _ranks([model.predict_proba(_in_context(example))[:, 1] for example in test], test)


def _in_context(example: Example) -> np.ndarray:
    """Evidence and its deviation from the list's mean, [K, 2 F]."""
    table = evidence(example).astype(float)
    return np.concatenate([table, table - table.mean(axis=0)], axis=1)


def _ranks(scores: Sequence[np.ndarray], examples: Sequence[Example]) -> np.ndarray:
    """1-based rank of the target by descending score, ties in the retriever's order."""
    pairs = zip(scores, examples, strict=True)
    return np.array([order_by(score).index(example.target) + 1 for score, example in pairs])
