"""Check an experiment file as a whole: text in, `Experiment` out, or all problems at once.

Only `load` and `attached` read files: `load` reads the experiment and the site, `attached` reads the files that an
experiment names.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Experiment, Factor, Site
from iolab.experiment.factors.expectations import read_expectations, read_margin
from iolab.experiment.factors.factors import check_size, possible_paths, read_factors
from iolab.experiment.factors.paths import GROUPS, NoSuchItem, survey
from iolab.experiment.factors.product import SelectorReader, any_cell, sample
from iolab.experiment.factors.resolve import resolver_of
from iolab.experiment.factors.summaries import read_summaries
from iolab.experiment.placement import placed
from iolab.experiment.reading.attached import attach, expand
from iolab.experiment.reading.document import MOST_BYTES, Table, line_of, read
from iolab.experiment.reading.old_keys import instead, rename_keys
from iolab.experiment.reading.problems import Problems, did_you_mean, listed, name_problem
from iolab.experiment.reading.sections import check, tables
from iolab.experiment.references.references import check_plain_names, check_references
from iolab.experiment.site import KEYS, read_site, written_site
from iolab.locale import Phrase, Text

TOP = (
    "title", "lab", "measure", "factors", "baseline", "blocks", "seed", "only", "except", "quick", "summarise",
    "expect", "margin", "site",
)  # fmt: skip
"""Top-level keys of an experiment file."""

MOST_BLOCKS = 10_000

LARGEST_SEED = 2**63 - 1

DEFAULT_SEED = 1

DEFAULT_MARGIN = 0.02
"""Default of `margin` [ratio]."""

MOST_VARIANTS = 20_000
"""Maximum number of section variants that a check resolves, over all sections; further variants are checked when their
cell is resolved."""

LEAST_VARIANTS = 10
"""Number of variants that are checked for each section, even if the total exceeds `MOST_VARIANTS`."""


def load(path: Path, on: Path | None = None) -> Experiment:
    """Read and check an experiment file and, if given, the site file.

    Raises:
        InputError: a file is unreadable or invalid; the exception lists all problems.
    """
    data = _bytes(path, Phrase("check.the-experiment-file"))
    return _parsed(
        data, str(path), None if on is None else _site_of(_bytes(on, Phrase("check.the-site")), str(on))
    )


def _bytes(path: Path, what: Text) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        seen = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        advice = Phrase("check.check-name-and-permissions")
        raise InputError(
            [
                Problem(
                    str(path),
                    Phrase("check.opening-what", what=what),
                    seen,
                    Phrase("check.readable-file"),
                    advice,
                )
            ]
        ) from error


def _site_of(data: bytes, source: str) -> Site:
    problems = Problems(source)
    document = read(data, problems, listed(KEYS))
    site = read_site(document, 1, problems) if document is not None else None
    problems.stop_if_any()
    assert site is not None
    return site


def parse(text: str, source: str, site: Site | None = None, *, stored: bool = False) -> Experiment:
    """Check the text of an experiment file.

    `source` is the file name in messages. `stored` is set if the text comes from a run folder, so it may use old
    syntax.

    Raises:
        InputError: the text is invalid; the exception lists all problems.
    """
    return _parsed(text.encode("utf-8", "surrogatepass"), source, site, stored=stored)


def _parsed(data: bytes, source: str, given: Site | None, *, stored: bool = False) -> Experiment:
    problems = Problems(source)
    document = read(data, problems)
    if document is None:
        raise problems.error()
    rename_keys(document, problems, stored=stored)
    files = attach(document, Path(source).parent, problems)
    expand(document, problems)
    site = _own_site(document, given, problems) or given
    text = data.decode("utf-8-sig", "replace")
    experiment = replace(_experiment(document, text, problems, stored=stored), files=files)
    problems.stop_if_any()
    if site is None:
        return experiment
    return _on_site(
        experiment if given is None else replace(experiment, text=_text_on(experiment, given)), site
    )


def _own_site(document: Table, given: Site | None, problems: Problems) -> Site | None:
    """Return the site under the key `site` of the experiment file; None if the file has no such key."""
    if document.get("site") is None:
        return None
    line = document.lines["site"]
    if given is not None:
        seen = Phrase("check.site-of-own", source=given.source)
        problems.add(
            line,
            Phrase("check.choosing-site"),
            seen,
            Phrase("check.one-of-them"),
            Phrase("check.remove-key-site"),
        )
    return read_site(document["site"], line, problems)


def _on_site(experiment: Experiment, site: Site) -> Experiment:
    """Return the experiment placed on a site, after a second check: valid settings may conflict on a site.

    Raises:
        InputError: the experiment does not fit the site.
    """
    problems = Problems(site.source)
    there = placed(experiment, site, problems)
    problems.stop_if_any()
    problems = Problems(experiment.source)
    _check_sections(there, problems, partial=False)
    if not problems:
        check_references(there, problems)
    problems.stop_if_any()
    return there


def _text_on(experiment: Experiment, site: Site) -> str:
    """Return the experiment text with the site added as the key `site`, so that one file describes the run.

    Raises:
        InputError: the file's layout does not allow a key at its end.
    """
    text = f"{experiment.text.rstrip()}\n\n{written_site(site)}"
    problems = Problems(experiment.source)
    document = read(text.encode(), problems)
    if document is None or "site" not in document:
        seen, allowed = (
            Phrase("check.file-open-for-keys", source=site.source),
            Phrase("check.block-style"),
        )
        advice = Phrase("check.use-block-style")
        raise InputError(
            [Problem(f"{experiment.source}:1", Phrase("check.storing-site"), seen, allowed, advice)]
        )
    return text


def _experiment(document: Table, text: str, problems: Problems, *, stored: bool) -> Experiment:
    _check_keys(document, problems)
    tree = _tree(document, problems)
    factors, walkable, selectors = _factors(document, tree, problems)
    experiment = Experiment(
        title=_title(document, problems),
        tree=tree,
        factors=factors,
        only=selectors.read(document, "only"),
        excluded=selectors.read(document, "except"),
        quick=selectors.read(document, "quick"),
        baseline=selectors.baseline(document),
        summaries=read_summaries(document, selectors.known, selectors.dropped, problems),
        expectations=read_expectations(document, tuple(tree["measure"]), selectors, problems),
        margin=read_margin(document, "margin", "", problems)
        if document.get("margin") is not None
        else DEFAULT_MARGIN,
        blocks=_number(document, "blocks", 1, 1, MOST_BLOCKS, problems),
        seed=_number(document, "seed", DEFAULT_SEED, 0, LARGEST_SEED, problems),
        text=text,
        source=problems.source,
        stored=stored,
    )
    if walkable:
        _check_sections(experiment, problems, partial=bool(problems))
    if walkable and not problems:
        _check_left(experiment, document, problems)
        check_references(experiment, problems)
    elif problems:
        check_plain_names(tree, _added_machines(document), problems)
    return experiment


def _added_machines(document: Table) -> list[str]:
    """Return the machine names in the paths of levels; some machines exist only in levels."""
    words = (path.split(".") for path in possible_paths(document.get("factors")))
    return [path[1] for path in words if path[0] == "machines" and len(path) > 1]


def _factors(
    document: Table, tree: Mapping[str, Any], problems: Problems
) -> tuple[tuple[Factor, ...], bool, SelectorReader]:
    """Return the factors, whether their cells can be enumerated, and a reader for selectors.

    A file without machines or measures is already an error; unresolvable paths in such a file are not reported in
    addition.
    """
    paths = list(possible_paths(document.get("factors")))
    keys = frozenset(paths)
    if not tree["lab"].get("machines") or not tree["measure"]:
        return (), True, SelectorReader((), keys, problems)
    before, line = len(problems), line_of(document, "factors")
    places = survey(tree, paths)
    factors = read_factors(document.get("factors"), line, places, problems)
    walkable = check_size(factors, line, places, problems)
    told = keys if len(problems) > before else frozenset()
    return factors, walkable, SelectorReader(factors, told, problems)


def _check_keys(document: Table, problems: Problems) -> None:
    for key in document:
        if key not in TOP:
            near = instead("top", key) or did_you_mean(key, TOP)
            if not near and key in GROUPS:
                near = Phrase("check.belongs-under-lab", key=key)
            problems.add(
                document.lines[key],
                Phrase("check.reading-file"),
                Phrase("check.the-key", key=key),
                Phrase("check.the-keys", keys=listed(TOP)),
                near,
            )


def _tree(document: Table, problems: Problems) -> dict[str, Any]:
    """Return the base document after checking its section names."""
    lab = _table(document, "lab", "lab", problems)
    for key in lab:
        if key not in GROUPS:
            near = did_you_mean(key, GROUPS)
            problems.add(
                lab.lines[key],
                Phrase("check.reading-lab"),
                Phrase("check.the-key", key=key),
                Phrase("check.the-keys", keys=listed(GROUPS)),
                near,
            )
    groups = {group: _table(lab, group, f"lab.{group}", problems) for group in GROUPS if group in lab}
    if lab and "machines" not in lab:
        problems.add(
            lab.line,
            Phrase("check.reading-lab"),
            Phrase("check.no-machines"),
            Phrase("check.machines-name-kind"),
        )
    measure = _table(document, "measure", "measure", problems)
    for group, content in {**groups, "measure": measure}.items():
        _check_names(group, content, problems)
    for name in measure:
        for group, content in groups.items():
            if name in content:
                allowed = Phrase("check.name-none", group=group)
                problems.add(measure.lines[name], Phrase("check.reading-measure", name=name), name, allowed)
    held = Table(groups, line=lab.line)
    held.lines = dict(lab.lines)
    return {"lab": held, "measure": measure}


def _table(holder: Table, key: str, place: str, problems: Problems) -> Table:
    value = holder.get(key)
    if isinstance(value, Table) and value:
        return value
    if key in ("links", "volumes") and not value and not isinstance(value, str | list | bool):
        return Table()
    if key in holder:
        problems.add(
            line_of(holder, key),
            Phrase("check.reading", place=place),
            value or Phrase("check.nothing"),
            Phrase("check.mapping-of-names"),
        )
    elif not any(did_you_mean(word, [key]) for word in holder if word not in TOP):
        problems.add(
            holder.line,
            Phrase("check.reading-file"),
            Phrase("check.no-key", key=key),
            Phrase("check.key-wanted", key=key),
            Phrase("check.add-key", key=key),
        )
    return Table()


def _check_names(group: str, content: Table, problems: Problems) -> None:
    place = group if group == "measure" else f"lab.{group}"
    for name in content:
        wrong = name_problem(name, short=group in ("machines", "links"))
        if wrong:
            problems.add(content.lines[name], Phrase("check.reading-a-name", place=place), name, wrong)


def _title(document: Table, problems: Problems) -> str:
    value = document.get("title")
    if value is None:
        return Path(problems.source).stem or "experiment"
    if isinstance(value, str) and 0 < len(value.strip()) <= 200 and value.strip().isprintable():
        return value.strip()
    problems.add(
        line_of(document, "title"),
        Phrase("check.reading-title"),
        value,
        Phrase("check.title-of-one-line"),
    )
    return ""


def _number(document: Table, key: str, default: int, low: int, high: int, problems: Problems) -> int:
    value = document.get(key, default)
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    problems.add(
        line_of(document, key),
        Phrase("check.reading", place=key),
        value,
        Phrase("check.whole-number-from-to", low=low, high=high),
    )
    return default


def _check_sections(experiment: Experiment, problems: Problems, *, partial: bool) -> None:
    """Resolve every section for all combinations of levels that change it, up to `MOST_VARIANTS` variants."""
    resolver = resolver_of(experiment)
    base = tables(experiment.tree)
    for section, data in base.items():
        check(section, data, resolver.line(section), problems, stored=experiment.stored, partial=True)
    left, walks, fine = MOST_VARIANTS, {}, dict[tuple[str, ...], object]()
    for after, section in zip(range(len(resolver.sections), 0, -1), resolver.sections, strict=True):
        touching = resolver.factors_of(section)
        if touching not in walks:
            walks[touching] = tuple(
                sample(experiment, touching, max(LEAST_VARIANTS, left - LEAST_VARIANTS * after))
            )
        left -= len(walks[touching])
        content, before = resolver.content(section), len(problems)
        if fine.get(touching) == content:
            continue  # equal to a checked variant; for example, numbered machines differ only in their number
        for cell in walks[touching]:
            try:
                variant = resolver.variant(section, cell)
            except NoSuchItem as error:
                problems.add(
                    error.line,
                    Phrase("check.resolving", place=section.place),
                    Phrase("check.item", word=error.word),
                    Phrase("check.item-of-list"),
                )
                continue
            if variant.data is not None:
                stored = experiment.stored
                check(section, variant.data, variant.line, problems, stored=stored, partial=partial)
        if len(problems) == before:
            fine[touching] = content


def _check_left(experiment: Experiment, document: Table, problems: Problems) -> None:
    """Report a problem if no cell remains, or if no remaining cell has the baseline's levels."""
    if not any_cell(experiment, {}):
        problems.add(
            line_of(document, "only"),
            Phrase("check.applying-only-and-except"),
            Phrase("check.no-cell-left"),
            Phrase("check.at-least-one-cell"),
        )
    elif not any_cell(experiment, {name: (label,) for name, label in experiment.baseline.items()}):
        problems.add(
            line_of(document, "baseline"),
            Phrase("check.applying-baseline"),
            experiment.baseline,
            Phrase("check.levels-some-cell-has-together"),
            Phrase("check.excluded-in-every-cell"),
        )
