"""An experiment file checked as a whole: text in, `Experiment` out, or every problem at once.

Only `load` touches the disk.
"""

from pathlib import Path
from typing import Any

from iolab.errors import InputError, Problem
from iolab.experiment.document import MOST_BYTES, Table, line_of, read
from iolab.experiment.experiment import Experiment, Selector
from iolab.experiment.factors import check_size, possible_paths, read_baseline, read_factors, read_selectors
from iolab.experiment.names import name_problem
from iolab.experiment.paths import GROUPS, survey
from iolab.experiment.problems import Problems, did_you_mean, listed
from iolab.experiment.product import cells, chosen, sample
from iolab.experiment.references import check_references
from iolab.experiment.resolve import Resolver
from iolab.experiment.sections import check, tables

TOP = ("title", "lab", "measure", "factors", "baseline", "blocks", "seed", "only", "except")
"""Keys of the document."""
MOST_BLOCKS = 10_000
LARGEST_SEED = 2**63 - 1
DEFAULT_SEED = 1
MOST_VARIANTS = 20_000
"""Section variants resolved while checking, all sections together; the rest is checked when a cell is resolved."""


def load(path: Path) -> Experiment:
    """Read and check an experiment file.

    Raises:
        InputError: it cannot be read or something in it is wrong; all problems are told.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        seen = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        problem = Problem(
            str(path),
            "opening the experiment file",
            seen,
            "a readable file",
            "check the name and its permissions",
        )
        raise InputError([problem]) from error
    return _parsed(data, str(path))


def parse(text: str, source: str) -> Experiment:
    """Check the text of an experiment file; `source` names it in messages.

    Raises:
        InputError: something in it is wrong; all problems are told.
    """
    return _parsed(text.encode("utf-8", "surrogatepass"), source)


def _parsed(data: bytes, source: str) -> Experiment:
    problems = Problems(source)
    document = read(data, problems)
    if document is None:
        raise problems.error()
    experiment = _experiment(document, data.decode("utf-8-sig", "replace"), problems)
    problems.stop_if_any()
    return experiment


def _experiment(document: Table, text: str, problems: Problems) -> Experiment:
    _check_keys(document, problems)
    tree = _tree(document, problems)
    line = line_of(document, "factors")
    places = survey(tree, possible_paths(document.get("factors")))
    factors = read_factors(document.get("factors"), line, places, problems)
    walkable = check_size(factors, line, problems)
    only = read_selectors(document.get("only"), line_of(document, "only"), factors, problems, "only")
    excluded = read_selectors(
        document.get("except"), line_of(document, "except"), factors, problems, "except"
    )
    baseline = read_baseline(document.get("baseline"), line_of(document, "baseline"), factors, problems)
    experiment = Experiment(
        title=_title(document, problems),
        tree=tree,
        factors=factors,
        only=only,
        excluded=excluded,
        baseline=baseline,
        blocks=_number(document, "blocks", 1, 1, MOST_BLOCKS, problems),
        seed=_number(document, "seed", DEFAULT_SEED, 0, LARGEST_SEED, problems),
        text=text,
        source=problems.source,
    )
    clean = not problems
    if walkable:
        _check_sections(experiment, problems, clean=clean)
    if walkable and not problems:
        _check_left(experiment, document, problems)
        check_references(experiment, problems)
    return experiment


def _check_keys(document: Table, problems: Problems) -> None:
    for key in document:
        if key not in TOP:
            near = did_you_mean(key, TOP)
            if not near and key in GROUPS:
                near = f"'{key}' belongs under 'lab'"
            problems.add(
                document.lines[key], "reading the file", f"the key '{key}'", f"the keys {listed(TOP)}", near
            )


def _tree(document: Table, problems: Problems) -> dict[str, Any]:
    """Return the base document with every section that has a usable name and place."""
    lab = _table(document, "lab", "lab", problems, required=True)
    for key in lab:
        if key not in GROUPS:
            problems.add(
                lab.lines[key],
                "reading lab",
                f"the key '{key}'",
                f"the keys {listed(GROUPS)}",
                did_you_mean(key, GROUPS),
            )
    groups = {
        group: _table(lab, group, f"lab.{group}", problems, required=group == "machines") for group in GROUPS
    }
    measure = _table(document, "measure", "measure", problems, required=True)
    for group, content in {**groups, "measure": measure}.items():
        _check_names(group, content, problems)
    taken = {"machines": "machine", "links": "link", "volumes": "volume"}
    for name in measure:
        for group, word in taken.items():
            if name in groups[group]:
                problems.add(
                    measure.lines[name], f"reading measure.{name}", name, f"a name that no {word} has"
                )
    held = Table(((group, content) for group, content in groups.items() if content), line=lab.line)
    held.lines = dict(lab.lines)
    return {"lab": held, "measure": measure}


def _table(holder: Table, key: str, place: str, problems: Problems, *, required: bool) -> Table:
    value = holder.get(key)
    line = line_of(holder, key)
    if isinstance(value, Table) and (value or not required):
        return value
    if value is None and not required:
        return Table()
    if key in holder or holder.line or required:
        seen = value or "nothing"
        problems.add(
            line, f"reading {place}", seen, "a mapping of names", f"add {key}:" if key not in holder else ""
        )
    return Table()


def _check_names(group: str, content: Table, problems: Problems) -> None:
    place = group if group == "measure" else f"lab.{group}"
    for name in content:
        wrong = name_problem(name, short=group in ("machines", "links"))
        if wrong:
            problems.add(content.lines[name], f"reading {place}, a name", name, wrong)


def _title(document: Table, problems: Problems) -> str:
    value = document.get("title")
    if value is None:
        return Path(problems.source).stem or "experiment"
    if isinstance(value, str) and 0 < len(value.strip()) <= 200 and value.strip().isprintable():
        return value.strip()
    problems.add(line_of(document, "title"), "reading title", value, "one line of at most 200 characters")
    return ""


def _number(document: Table, key: str, default: int, low: int, high: int, problems: Problems) -> int:
    value = document.get(key, default)
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    problems.add(line_of(document, key), f"reading {key}", value, f"a whole number from {low} to {high}")
    return default


def _check_sections(experiment: Experiment, problems: Problems, *, clean: bool) -> None:
    """Resolve every section in every combination of levels that changes it, within `MOST_VARIANTS`."""
    resolver = Resolver(experiment)
    base = tables(experiment.tree)
    for section, data in base.items():
        holder: Any = experiment.tree["measure"] if section.group == "measure" else experiment.tree["lab"]
        line = line_of(holder if section.group == "measure" else holder[section.group], section.name)
        check(section, data, line, problems, partial=True)
    share = max(20, MOST_VARIANTS // max(1, len(resolver.sections)))
    for section in resolver.sections:
        for cell in sample(experiment, resolver.factors_of(section), share):
            try:
                variant = resolver.variant(section, cell)
            except IndexError:
                line = line_of(experiment.tree, section.name)
                problems.add(
                    line,
                    f"resolving {section.place}",
                    "an item number beyond the list",
                    "an item that the list has",
                )
                break
            if variant.data is not None:
                check(section, variant.data, variant.line, problems, partial=not clean)


def _check_left(experiment: Experiment, document: Table, problems: Problems) -> None:
    """Note it when no cell is left, or none that has the baseline's levels."""
    if next(iter(cells(experiment)), None) is None:
        problems.add(
            line_of(document, "only"), "applying only and except", "no cell is left", "at least one cell"
        )
        return
    if not experiment.baseline:
        return
    wanted: Selector = {name: (label,) for name, label in experiment.baseline.items()}
    found = sample(experiment, list(wanted), MOST_VARIANTS)
    if not any(chosen(cell, (wanted,), ()) for cell in found):
        line = line_of(document, "baseline")
        problems.add(
            line,
            "applying the baseline",
            experiment.baseline,
            "levels that some cell has together",
            "only, except or a sub-factor's place exclude it",
        )
