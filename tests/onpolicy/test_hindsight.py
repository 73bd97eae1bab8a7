"""The teacher's law given what stands further right, against Bayes' rule written out."""

import torch

from diffgr2lib.onpolicy.hindsight import LIKELY, corrected_logits, known_right, teacher_logits
from diffgr2lib.onpolicy.opd import right_visible
from tests.onpolicy.test_opd import shown_states
from tests.tiny import make_tiny


def law_by_hand(teacher, one, shown, n, c, i, B):
    """log q(v) of every token by one plain forward for each v."""
    prompt, text = list(one.prompt), shown.tokens[n].tolist()
    end = (i // B + 1) * B
    visible = [
        j for j in range(i + 1, min(end, len(one.tokens))) if not bool(shown.masked[n, c, j])
    ]

    def log_law(tokens):
        ids = torch.tensor([tokens])
        places = torch.arange(len(tokens))[None]
        mask = torch.full((1, 1, len(tokens), len(tokens)), float("-inf")).triu(1)
        with torch.no_grad():
            logits = teacher.forward(ids, places, mask)[0].float()
        logits[:, teacher.mask_token_id] = float("-inf")
        return logits.log_softmax(-1)

    own = log_law(prompt + text[:i])[-1] if prompt + text[:i] else None
    found = torch.full_like(own, float("-inf"))
    for v in own.topk(LIKELY).indices.tolist():
        tokens = [*prompt, *text[:i], v, *text[i + 1 : end]]
        law = log_law(tokens)
        shift = len(prompt) - 1
        found[v] = own[v] + sum(law[shift + j, text[j]] for j in visible)
    return found.log_softmax(-1), visible


def test_the_corrected_law_is_bayes_rule_with_the_teachers_own_probabilities():
    teacher = make_tiny(1, seed=1)
    made, shown = shown_states()
    B = made[0].block_size
    laws = teacher_logits(teacher, made, shown)
    asked = shown.masked.nonzero()
    found = corrected_logits(teacher, made, shown, asked, laws, B).log_softmax(-1)
    blind = 0
    for q, (n, c, i) in enumerate(asked.tolist()):
        expected, visible = law_by_hand(teacher, made[n], shown, n, c, i, B)
        if visible:
            blind += 1
            close = torch.isclose(found[q], expected, atol=2e-4)
            assert (close | (found[q] == expected)).all()
        else:
            assert torch.equal(found[q], laws[n, i].log_softmax(-1))
    assert blind >= 5


def test_known_right_agrees_with_right_visible():
    made, shown = shown_states()
    asked = shown.masked.nonzero()
    right = known_right(shown, made[0].block_size, asked)
    blind = right_visible(shown, made[0].block_size)
    # padding to the right is shown to nobody, so it is no evidence either
    assert torch.equal(right.any(1), blind[tuple(asked.T)] & right.any(1))
    assert right.any()


def test_evidence_changes_the_law_where_there_is_some_and_nowhere_else():
    """Only positions with something committed to their right have another law."""
    teacher = make_tiny(1, seed=1)
    made, shown = shown_states()
    laws = teacher_logits(teacher, made, shown)
    asked = shown.masked.nonzero()
    right = known_right(shown, made[0].block_size, asked).any(1)
    plain = laws[asked[:, 0], asked[:, 2]].softmax(-1)
    found = corrected_logits(teacher, made, shown, asked, laws, made[0].block_size).softmax(-1)
    apart = (plain - found).abs().sum(-1)
    assert (apart[~right] == 0).all() and (apart[right] > 1e-4).all()
