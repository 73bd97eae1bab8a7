"""Muon in float32: momentum, then the nearest orthogonal matrix, for the hidden weight matrices.

After K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024).
`torch.optim.Muon` computes the same update in bfloat16, which a CPU without bfloat16 units emulates
(a step took twice as long); here matrices of one shape are orthogonalised as one float32 batch.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # quintic Newton-Schulz, from the same source


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Approximate U V^T of each [.., n, m] matrix by a quintic Newton-Schulz iteration."""
    a, b, c = COEFFICIENTS
    wide = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if wide else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if wide else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum on the gradient, orthogonalised, scaled by sqrt(max(1, rows / columns)).

    params: two-dimensional weights. lr: step length in units of an orthogonal matrix, 0.005 to
    0.05.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in shapes.items():
                updates = []
                for parameter in parameters:
                    gradient = parameter.grad
                    assert gradient is not None
                    state = self.state[parameter]
                    if not state:
                        state["momentum"] = torch.zeros_like(parameter)
                    state["momentum"].lerp_(gradient, 1 - group["momentum"])
                    updates.append(gradient.lerp(state["momentum"], group["momentum"]))
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, update in zip(
                    parameters, orthogonalise(torch.stack(updates)), strict=True
                ):
                    parameter.add_(update, alpha=-group["lr"] * scale)
