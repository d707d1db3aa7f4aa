"""Narrow an experiment to some of its cells, as the command line asks: "links.lan.mtu=9000; network=vlan|no vlan"."""

from dataclasses import replace

from iolab.experiment.experiment import Experiment
from iolab.experiment.problems import Problems, did_you_mean, listed
from iolab.experiment.product import any_cell, both, names

ALLOWED = "factor=label, labels separated by |, factors by ;"


def narrowed(experiment: Experiment, expression: str) -> Experiment:
    """Return the experiment with only the cells that match `factor=label|label; factor=label`.

    Raises:
        InputError: the expression names no factor or label, or no cell is left.
    """
    problems = Problems("--only")
    selector = _selector(experiment, expression, problems)
    problems.stop_if_any()
    only = tuple(both(one, selector) for one in experiment.only) or (selector,)
    found = replace(experiment, only=only)
    if not any_cell(found, {}):
        problems.add(0, "selecting cells", expression, "levels that some cell has together")
    problems.stop_if_any()
    return found


def _selector(experiment: Experiment, expression: str, problems: Problems) -> dict[str, tuple[str, ...]]:
    known = names(experiment.factors)
    found: dict[str, tuple[str, ...]] = {}
    for part in expression.split(";"):
        name, equals, text = part.partition("=")
        name = name.strip()
        if not equals:
            problems.add(0, "reading the expression", part.strip(), ALLOWED)
        elif name not in known:
            problems.add(
                0, "reading the expression", name, f"a factor: {listed(known)}", did_you_mean(name, known)
            )
        else:
            labels = tuple(label.strip() for label in text.split("|"))
            for label in labels:
                if label not in known[name]:
                    allowed = f"a level of {name}: {listed(known[name])}"
                    problems.add(
                        0, "reading the expression", label, allowed, did_you_mean(label, known[name])
                    )
            found[name] = tuple(label for label in labels if label in found.get(name, labels))
    return found
