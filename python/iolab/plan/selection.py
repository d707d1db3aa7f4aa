"""Parse the cells ("links.lan.mtu=1500|9000", or the file's `quick`) and summaries on the command line."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Experiment, LevelRatio, Selector, Summary
from iolab.experiment.factors.product import names
from iolab.locale import Phrase, Text
from iolab.plan.types import Plan

ONLY = "--only"
"""Name of the command-line option for selections."""
CHOOSING, RATIO = Phrase("plan.choosing-quick-cells"), Phrase("plan.reading-ratio")


def selection(texts: Sequence[str], experiment: Experiment, *, quick: bool = False) -> tuple[Selector, ...]:
    """Return the selectors given by `--only` (repeatable) and `--quick`; empty: every cell.

    Raises:
        InputError: a factor or level is unknown, no cell matches all options, or the file has no `quick`.
    """
    asked = tuple(selector(text, experiment) for text in texts)
    if not quick:
        return asked
    if not experiment.quick:
        seen, allowed = Phrase("plan.no-key-quick"), Phrase("plan.experiment-with-quick")
        raise InputError(
            [Problem(f"{experiment.source}:1", CHOOSING, seen, allowed, Phrase("plan.use-only-or-add-quick"))]
        )
    if not asked:
        return experiment.quick
    both = tuple(
        found for one in experiment.quick for other in asked if (found := _of_both(one, other)) is not None
    )
    if not both:
        seen, allowed = Phrase("plan.no-cell-of-quick-and-only"), Phrase("plan.only-with-quick-levels")
        raise InputError([Problem(ONLY, CHOOSING, seen, allowed)])
    return both


def _of_both(one: Selector, other: Selector) -> Selector | None:
    """Return a selector for the cells that match both selectors; None if no cell can match both."""
    found = {**one, **other}
    for name in one.keys() & other.keys():
        found[name] = tuple(label for label in one[name] if label in other[name])
        if not found[name]:
            return None
    return found


def selector(text: str, of: Plan | Experiment) -> Selector:
    """Return the selector for `factor=level|level,factor=level`; labels may contain commas.

    Raises:
        InputError: a factor or level does not exist; the error lists all such names, each with the closest existing
            name.
    """
    known = _known(of)
    found: dict[str, tuple[str, ...]] = {}
    problems: list[Problem] = []
    for part in _parts(text):
        name, equals, levels = part.partition("=")
        name = name.strip()
        if not equals:
            allowed = "factor=level|level,factor=level"
            problems.append(Problem(ONLY, Phrase("plan.reading-selection"), repr(part), allowed))
            continue
        if name not in known:
            problems.append(_unknown(ONLY, Phrase("plan.selecting-by-factor"), name, tuple(known)))
            continue
        labels = tuple(label.strip() for label in levels.split("|"))
        problems += [
            _unknown(ONLY, Phrase("plan.selecting-level", factor=name), label, known[name])
            for label in labels
            if label not in known[name]
        ]
        found[name] = tuple(dict.fromkeys((*found.get(name, ()), *labels)))
    if problems:
        raise InputError(problems)
    return found


def _known(of: Plan | Experiment) -> dict[str, tuple[str, ...]]:
    if isinstance(of, Plan):
        return {factor.name: factor.labels for factor in of.factors}
    return names(of.factors)


def _parts(text: str) -> list[str]:
    """Split at commas; a piece without "=" belongs to the previous label."""
    parts: list[str] = []
    for piece in text.split(","):
        if "=" in piece or not parts:
            parts.append(piece)
        else:
            parts[-1] += f",{piece}"
    return parts


def _unknown(option: str, doing: Text, seen: str, allowed: tuple[str, ...]) -> Problem:
    near = get_close_matches(seen, allowed, n=1, cutoff=0.5)
    advice: Text = Phrase("units.did-you-mean-any", words=near) if near else ""
    return Problem(option, doing, repr(seen), ", ".join(allowed) or Phrase("plan.no-factors"), advice)


def asked_summaries(overs: Sequence[str], ratios: Sequence[str], plan: Plan) -> tuple[Summary, ...]:
    """Return the summaries for `--over FACTOR` and `--ratio FACTOR=LEVEL/LEVEL`; both options are repeatable.

    Raises:
        InputError: a factor or level does not exist; the error lists all such names, each with the closest existing
            name.
    """
    known = {name: labels for name, labels in _known(plan).items() if len(labels) > 1}
    problems = [
        _unknown("--over", Phrase("plan.reading-over"), name, tuple(known))
        for name in overs
        if name not in known
    ]
    found: list[LevelRatio] = []
    for text in ratios:
        read = _ratio(text, known)
        if isinstance(read, Problem):
            problems.append(read)
        elif read.factor in overs:
            problems.append(Problem("--ratio", RATIO, repr(text), Phrase("plan.factor-other-than-over")))
        else:
            found.append(read)
    if ratios and not overs:
        problems.append(Problem("--ratio", RATIO, Phrase("plan.no-over"), Phrase("plan.over-with-ratio")))
    if problems:
        raise InputError(problems)
    return tuple(Summary(over=over, ratios=tuple(found)) for over in overs)


def _ratio(text: str, known: Mapping[str, tuple[str, ...]]) -> LevelRatio | Problem:
    """Parse `factor=above/below`; labels may contain slashes."""
    name, equals, rest = text.partition("=")
    if not equals:
        return Problem("--ratio", RATIO, repr(text), "factor=level/level")
    if name not in known:
        return _unknown("--ratio", Phrase("plan.comparing-levels"), name, tuple(known))
    pieces = rest.split("/")
    for cut in range(1, len(pieces)):
        above, below = "/".join(pieces[:cut]), "/".join(pieces[cut:])
        if above != below and {above, below} <= set(known[name]):
            return LevelRatio(name, above, below)
    return Problem("--ratio", RATIO, repr(text), Phrase("plan.two-levels", factor=name, levels=known[name]))
