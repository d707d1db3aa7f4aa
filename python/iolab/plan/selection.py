"""What the command line asks for: cells ("links.lan.mtu=1500|9000", or the file's quick ones), and summaries."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Experiment, LevelRatio, Selector, Summary
from iolab.experiment.factors.product import names
from iolab.plan.types import Plan

ONLY = "--only"
"""The option that selections are given with."""


def selection(texts: Sequence[str], experiment: Experiment, *, quick: bool = False) -> tuple[Selector, ...]:
    """Return what `--only` (several times) and `--quick` select; empty: every cell.

    Raises:
        InputError: a word names nothing, they select no cell together, or the file does not say what is quick.
    """
    asked = tuple(selector(text, experiment) for text in texts)
    if not quick:
        return asked
    if not experiment.quick:
        seen, allowed = "no key `quick`", "an experiment with `quick: {factor: label, ...}`"
        advice = "give --only, or say in the file which cells make a quick run"
        raise InputError(
            [Problem(f"{experiment.source}:1", "choosing the cells of a quick run", seen, allowed, advice)]
        )
    if not asked:
        return experiment.quick
    both = tuple(
        found for one in experiment.quick for other in asked if (found := _of_both(one, other)) is not None
    )
    if not both:
        seen, allowed = "no cell that --quick and --only both select", "--only with levels of the quick cells"
        raise InputError([Problem(ONLY, "choosing the cells of a quick run", seen, allowed)])
    return both


def _of_both(one: Selector, other: Selector) -> Selector | None:
    """Return what selects the cells that both select; None: no cell can be."""
    found = {**one, **other}
    for name in one.keys() & other.keys():
        found[name] = tuple(label for label in one[name] if label in other[name])
        if not found[name]:
            return None
    return found


def selector(text: str, of: Plan | Experiment) -> Selector:
    """Return what `factor=level|level,factor=level` selects; a comma within a level's label is understood.

    Raises:
        InputError: a factor or level does not exist, with the nearest word; every error at once.
    """
    known = _known(of)
    found: dict[str, tuple[str, ...]] = {}
    problems: list[Problem] = []
    for part in _parts(text):
        name, equals, levels = part.partition("=")
        name = name.strip()
        if not equals:
            allowed = "factor=level|level,factor=level"
            problems.append(Problem(ONLY, "reading a selection", repr(part), allowed))
            continue
        if name not in known:
            problems.append(_unknown(ONLY, "selecting by a factor", name, tuple(known)))
            continue
        labels = tuple(label.strip() for label in levels.split("|"))
        problems += [
            _unknown(ONLY, f"selecting a level of {name}", label, known[name])
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
    """Split at commas; a piece without "=" belongs to the label before it."""
    parts: list[str] = []
    for piece in text.split(","):
        if "=" in piece or not parts:
            parts.append(piece)
        else:
            parts[-1] += f",{piece}"
    return parts


def _unknown(option: str, doing: str, seen: str, allowed: tuple[str, ...]) -> Problem:
    near = get_close_matches(seen, allowed, n=1, cutoff=0.5)
    advice = f"did you mean {near[0]}?" if near else ""
    words = ", ".join(allowed) or "no factor: the experiment varies nothing"
    return Problem(option, doing, repr(seen), words, advice)


def asked_summaries(overs: Sequence[str], ratios: Sequence[str], plan: Plan) -> tuple[Summary, ...]:
    """Return what `--over FACTOR` and `--ratio FACTOR=LEVEL/LEVEL` ask for; each may stand several times.

    Raises:
        InputError: a factor or level does not exist, with the nearest word; every error at once.
    """
    known = {name: labels for name, labels in _known(plan).items() if len(labels) > 1}
    problems = [
        _unknown("--over", "reading --over", name, tuple(known)) for name in overs if name not in known
    ]
    found: list[LevelRatio] = []
    for text in ratios:
        read = _ratio(text, known)
        if isinstance(read, Problem):
            problems.append(read)
        elif read.factor in overs:
            allowed = "another factor than that of --over"
            problems.append(Problem("--ratio", "reading a ratio", repr(text), allowed))
        else:
            found.append(read)
    if ratios and not overs:
        problems.append(Problem("--ratio", "reading a ratio", "no --over", "--over FACTOR beside it"))
    if problems:
        raise InputError(problems)
    return tuple(Summary(over=over, ratios=tuple(found)) for over in overs)


def _ratio(text: str, known: Mapping[str, tuple[str, ...]]) -> LevelRatio | Problem:
    """Read `factor=above/below`; a stroke within a label is understood."""
    name, equals, rest = text.partition("=")
    if not equals:
        return Problem("--ratio", "reading a ratio", repr(text), "factor=level/level")
    if name not in known:
        return _unknown("--ratio", "comparing levels of a factor", name, tuple(known))
    pieces = rest.split("/")
    for cut in range(1, len(pieces)):
        above, below = "/".join(pieces[:cut]), "/".join(pieces[cut:])
        if above != below and {above, below} <= set(known[name]):
            return LevelRatio(name, above, below)
    allowed = f"two levels of {name}, level/level: {', '.join(known[name])}"
    return Problem("--ratio", "reading a ratio", repr(text), allowed)
