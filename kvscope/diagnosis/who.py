"""Whom a finding struck: which engines and pairs, which lengths of prompt."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis.baseline import stratum
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.figures import ms
from kvscope.diagnosis.finding import Who
from kvscope.diagnosis.match import Match
from kvscope.model.counting import count

NEARLY_ALL, TOO_MUCH = 0.8, 0.6
"""A finding is concentrated where that share of it is, on a part that has at most this share of the requests."""
SPREAD = 3.0
"""Times by which it is longer for long prompts before it depends on them."""


def who_of(now: Evidence, match: Match) -> Who:
    """Look at where the excess is; at the requests themselves where it cost nothing."""
    weight = np.maximum(match.excess, 0.0)
    if not weight.any():
        weight = match.rows.astype(float)
    return Who(int(match.rows.sum()), len(now), _engines(now, match, weight), _prompts(now, match, weight))


def _engines(now: Evidence, match: Match, weight: np.ndarray) -> str:
    splits = now.splits
    prefill = np.where(splits.prefill_engine >= 0, splits.prefill_engine, np.maximum(now.named, -1))
    decode = splits.decode_engine
    names = [*(engine.engine or engine.engine_id[:8] for engine in splits.engines), "an engine not seen"]
    for columns in ((prefill,), (decode,), (prefill, decode)):
        keys = np.stack(columns, axis=1)
        groups, index = np.unique(keys, axis=0, return_inverse=True)
        index = index.ravel()
        if len(groups) < 2:
            continue
        part = np.bincount(index, weight, len(groups)) / weight.sum()
        share = np.bincount(index, minlength=len(groups)) / len(now)
        worst = int(part.argmax())
        if part[worst] >= NEARLY_ALL and share[worst] <= TOO_MUCH:
            named = " -> ".join(names[at] for at in groups[worst].tolist())
            return f"concentrated on {named}: {part[worst]:.0%} of it, {share[worst]:.0%} of the requests"
    prefills, decodes = (
        len({names[at] for at in np.unique(column[match.rows & (column >= 0)]).tolist()})
        for column in (prefill, decode)
    )
    if (prefills, decodes) == (1, 1):
        one = np.flatnonzero(match.rows & (prefill >= 0) & (decode >= 0))
        if len(one):
            return f"{names[prefill[one[0]]]} -> {names[decode[one[0]]]}"
    return f"{count(prefills, 'prefill engine')}, {count(decodes, 'decode engine')}"


def _prompts(now: Evidence, match: Match, weight: np.ndarray) -> str:
    known = ~np.isnan(now.prompt)
    strata = stratum(now.prompt)
    if not known.any():
        return "prompt lengths not known"
    levels = np.unique(strata[known])
    if len(levels) < 2:
        return f"prompts of about {np.median(now.prompt[known]):,.0f} tokens"
    means, lengths = [], []
    for level in levels.tolist():
        mine = known & (strata == level)
        means.append(float(weight[mine].mean()))
        lengths.append(float(np.median(now.prompt[mine])))
    if means[-1] > SPREAD * means[0] and means[-1] == max(means):
        figure = f" ({ms(means[0])} to {ms(means[-1])} ms)" if match.excess.any() else ""
        return f"more of it the longer the prompt: {lengths[0]:,.0f} to {lengths[-1]:,.0f} tokens{figure}"
    if any(mean == 0 for mean in means):
        struck = [length for mean, length in zip(means, lengths, strict=True) if mean]
        range_ = f"{min(struck):,.0f} to {max(struck):,.0f}" if min(struck) < max(struck) else f"{min(struck):,.0f}"
        return f"prompts of about {range_} tokens"
    return "every prompt length"
