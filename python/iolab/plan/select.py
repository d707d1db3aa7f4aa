"""Which cells the command line asks for: "links.lan.mtu=1500|9000,network=no vlan", or the file's quick ones."""

from collections.abc import Sequence
from difflib import get_close_matches

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Experiment, Selector
from iolab.experiment.product import names
from iolab.plan.types import Plan


def selection(texts: Sequence[str], experiment: Experiment, *, quick: bool = False) -> tuple[Selector, ...]:
    """Return what `--only` (several times) or `--quick` selects; empty: every cell.

    Raises:
        InputError: a word names nothing, both are given, or the file does not say what is quick.
    """
    if not quick:
        return tuple(selector(text, experiment) for text in texts)
    if texts:
        seen, allowed = "--quick and --only", "one of them"
        raise InputError([Problem("--quick", "choosing the cells of a run", seen, allowed)])
    if not experiment.quick:
        seen, allowed = "no key `quick`", "an experiment with `quick: {factor: label, ...}`"
        advice = "give --only, or say in the file which cells make a quick run"
        raise InputError(
            [Problem(experiment.source, "choosing the cells of a quick run", seen, allowed, advice)]
        )
    return experiment.quick


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
            problems.append(_problem("reading a selection", part, "factor=level|level,factor=level"))
            continue
        if name not in known:
            problems.append(_unknown("selecting by a factor", name, tuple(known)))
            continue
        labels = tuple(label.strip() for label in levels.split("|"))
        problems += [
            _unknown(f"selecting a level of {name}", label, known[name])
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


def _unknown(doing: str, seen: str, allowed: tuple[str, ...]) -> Problem:
    near = get_close_matches(seen, allowed, n=1, cutoff=0.5)
    advice = f"did you mean {near[0]}?" if near else ""
    return _problem(doing, seen, ", ".join(allowed) or "no factor: the experiment varies nothing", advice)


def _problem(doing: str, seen: str, allowed: str, advice: str = "") -> Problem:
    return Problem("--only", doing, repr(seen), allowed, advice)
