"""Muon's update is the orthogonalised momentum that torch's own (bfloat16) one computes."""

import torch

from diffgr2lib.train.muon import Muon, orthogonalise


def test_singular_values_become_about_one():
    matrices = torch.randn(3, 8, 5, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert values.min() > 0.6 and values.max() < 1.3


def test_orthogonalise_keeps_the_singular_vectors():
    matrix = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    middle = u.T @ orthogonalise(matrix[None])[0] @ v.T
    off = middle - torch.diag(middle.diag())
    assert off.abs().max() < 1e-4


def test_steps_agree_with_torch_muon():
    generator = torch.Generator().manual_seed(2)
    start = torch.randn(12, 6, generator=generator)
    ours, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
    a = Muon([ours], lr=0.1)
    b = torch.optim.Muon([theirs], lr=0.1, momentum=0.95, nesterov=True, weight_decay=0.0)
    for _ in range(4):
        gradient = torch.randn(12, 6, generator=generator)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        a.step()
        b.step()
    moved = (theirs - start).norm()
    assert moved > 0.1 and (ours - theirs).norm() / moved < 0.05  # bfloat16 inside theirs
