"""A judged answer as HTML: the ranking panel, and a strip of labels for comparisons."""

from html import escape

from diffgr2lib.data.types import Example
from diffgr2lib.report.answer import Answer
from diffgr2lib.report.markup import shown
from diffgr2lib.text.grammar import LABELS


def ranking(answer: Answer, example: Example) -> str:
    """The ranking panel: retriever rank, new rank, the item bought next, failures in words."""
    rows = []
    if answer.ranks:
        for rank in answer.ranks:
            rows.append(
                _rank_row(example, rank.place, rank.candidate, rank.settled, rank.note, rank.text)
            )
        rows += [_rank_row(example, 0, k, 0, "left out", "") for k in answer.missing]
    else:
        for k in range(len(example.candidates)):
            rows.append(_rank_row(example, k + 1, k, 0, "", ""))
    moved = _moved(answer.floor_rank, answer.true_rank)
    true = ""
    if answer.true_rank:
        true = f" The item bought next: retriever's rank {answer.floor_rank},"
        true += f" new rank {answer.true_rank}{moved}."
    text = shown(" ".join(answer.sentences) + true)
    return (
        f'<section class="panel" aria-label="ranking"><h4>Ranking <span style="font-weight:400">'
        f'(retriever → new rank)</span></h4><ol class="ranks">{"".join(rows)}</ol>'
        f'<p class="verdict">{text}</p></section>'
    )


def _moved(before: int, after: int) -> str:
    if before == after:
        return ""
    return f", {'up' if after < before else 'down'} {abs(before - after)}"


def _rank_row(
    example: Example, place: int, k: int | None, settled: int, note: str, text: str
) -> str:
    true = k is not None and k == example.target
    name = "bad" if note else "true" if true else ""
    number = f"{place}." if place else "–"
    if k is None:
        what, move = f"<bdi>{escape(text)}</bdi><small>{shown(note)}</small>", ""
    else:
        item = example.candidates[k].item
        said = " · ".join(part for part in (item.category, item.brand) if part)
        tag = ' <span class="tag">bought next</span>' if true else ""
        tag += f' <span class="tag">{shown(note)}</span>' if note else ""
        what = (
            f'<span class="letter">{LABELS[k]}</span> '
            f"<bdi>{shown(item.title) or 'untitled'}</bdi>{tag}"
            f"<small>{shown(said)}</small>"
        )
        move = f"{k + 1} → {place}" if place else f"{k + 1} → –"
        if place and not note:
            arrow = "▲" if place <= k else "▼" if place > k + 1 else ""
            move += f' <span aria-hidden="true">{arrow}</span>'
    return (
        f'<li class="{name}" data-settled="{settled}"><span class="place">{number}</span> '
        f'<span class="what">{what}</span> <span class="move">{move}</span></li>'
    )


def answer_strip(answer: Answer, target: int) -> str:
    """The ranking as labels in a row; duplicates and names that are no candidates stand out."""
    items = []
    for rank in answer.ranks:
        label = "?" if rank.candidate is None else LABELS[rank.candidate]
        true = rank.candidate == target and not rank.note
        name = ' class="bad"' if rank.note else ' class="true"' if true else ""
        said = rank.note or ("bought next" if true else "")
        title = f' title="{shown(said)}"' if said else ""
        mark = "★" if true else "×" if rank.note else ""
        items.append(f'<li{name} data-settled="{rank.settled}"{title}>{label}{mark}</li>')
    verdict = f'<p class="verdict">{shown(" ".join(answer.sentences))}</p>'
    return (
        f'<ol class="strip" aria-label="ranking">{"".join(items)}</ol>' if items else ""
    ) + verdict
