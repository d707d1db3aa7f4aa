"""Apply the levels of a cell to the base document, and return typed models and digests of their content.

Sections (a machine, link, volume or measure) are resolved one at a time, once for each distinct combination of the
factors that change the section. An iteration over 100 000 cells thus resolves only the differences between them.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, cast

from pydantic import BaseModel

from iolab.errors import InputError
from iolab.experiment.experiment import Cell, Experiment, Lab, Section, Setup, answered_once, without_plain
from iolab.experiment.factors.paths import (
    NoSuchItem,
    active,
    branches_of,
    level_paths,
    names_of,
    narrowed,
    put,
    survey,
)
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.measures import Measure
from iolab.experiment.model.volumes import Volume
from iolab.experiment.reading.document import line_of
from iolab.experiment.reading.problems import Problems
from iolab.experiment.reading.sections import check, tables, validated
from iolab.locale import Phrase
from iolab.messages.unmet import UnmetRequirement
from iolab.registry.registry import measure_kinds

DIGEST_BYTES = 16
"""Digest size of 128 bits: the collision probability among 10^7 cells is below 10^-24."""

MOST_REMEMBERED = 250_000
"""Maximum number of digests in a cache; a full cache is emptied."""

MOST_MODELS = 5_000
"""Maximum number of models in the cache; a full cache is emptied."""

MOST_LABS = 250
"""Maximum number of labs in the cache, each with its `answered_once` cache; a full cache is emptied."""


class Variant(NamedTuple):
    """One section in one cell."""

    data: Any
    """Plain data with all levels applied; None if the section is absent."""
    line: int
    """First line of the section in the file."""


class Resolver:
    """Resolver of the cells of one experiment, with caches. `resolver_of` creates one resolver per experiment."""

    def __init__(self, experiment: Experiment) -> None:
        base = tables(experiment.tree)
        places = survey(experiment.tree, level_paths(experiment.factors), experiment.scopes)
        self._source = experiment.source
        self._stored = experiment.stored
        self._consents = experiment.consents
        self.site = experiment.site
        """The site on which the experiment is placed, if any."""
        self._absent = experiment.absent
        self._base = {section: base.get(section) for section in places.sections}
        self._lines = {section: _line(experiment.tree, section) for section in places.sections}
        self._branches = branches_of(experiment.factors, places)
        self._names = {section: names_of(self._branches[section]) for section in places.sections}
        self._lab = tuple(sorted(section for section in places.sections if section.group != "measure"))
        self._varied = tuple((section, f"{section} ") for section in self._lab if self._names[section])
        self._constants: tuple[str, ...] | None = None
        self._lab_names = tuple(dict.fromkeys(name for section in self._lab for name in self._names[section]))
        named = tuple(section.name for section in places.sections if section.group == "measure")
        self.together = {name: parts for name in named if (parts := self._parts(name, named))}
        """Names of the parts of each `together` measure, in order, by its name."""
        self._taken_by = {part: name for name, parts in self.together.items() for part in parts}
        self._measures = tuple(name for name in named if name not in self.together)
        self._touched = {
            name: frozenset(section for section in places.sections if name in self._names[section])
            for name in {name for names in self._names.values() for name in names}
        }
        self._models: dict[tuple[Section, tuple[str | None, ...]], BaseModel | None] = {}
        self._digests: dict[tuple[Section, tuple[str | None, ...]], str] = {}
        self._lab_keys: dict[tuple[str | None, ...], str] = {}
        self._labs: dict[tuple[str | None, ...], Lab] = {}

    @property
    def sections(self) -> tuple[Section, ...]:
        """All sections that exist in at least one cell."""
        return tuple(self._base)

    def content(self, section: Section) -> object:
        """Return the content that determines a section in every cell, for comparisons.

        The content is the section's group, base data and changes.
        """
        return section.group, self._base[section], self._branches[section]

    def line(self, section: Section) -> int:
        """Return the first line of a section in the base document; 0 if only a level creates the section."""
        return self._lines[section]

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures that produce results, in file order."""
        return self._measures

    def taken_by(self, measure: str) -> str:
        """Return the name of the `together` measure that has this measure as a part; empty: no measure has it."""
        return self._taken_by.get(measure, "")

    def companions(self, measure: str) -> tuple[str, ...]:
        """Return the measures that run in parallel with a measure, including the measure, in order."""
        return self.together.get(self.taken_by(measure), (measure,))

    def _parts(self, measure: str, named: Sequence[str]) -> tuple[str, ...]:
        """Return the existing measures that a `together` measure has as parts in the base document."""
        section = Section("measure", measure)
        model = validated(section, self._base[section], stored=self._stored)
        if not isinstance(model, Measure) or (parts := measure_kinds()[model.kind].parts) is None:
            return ()
        return tuple(part for part in parts(model) if part in named)

    def factors_of(self, section: Section, keys: frozenset[str] | None = None) -> tuple[str, ...]:
        """Return the factors that change a section, and their parent factors.

        With `keys`, return only factors that change one of these keys of the section.
        """
        return self._names[section] if keys is None else names_of(narrowed(self._branches[section], keys))

    def touches(self, factor_name: str, measure_name: str) -> bool:
        """Whether a factor (or one of its sub-factors) changes the lab, the measure or a measure in parallel to it."""
        own = {*self.companions(measure_name), self.taken_by(measure_name)}
        return any(
            section.group != "measure" or section.name in own
            for section in self._touched.get(factor_name, ())
        )

    def setup(self, cell: Cell) -> Setup:
        """Return the lab and the measures of one cell; plain links are replaced by the links below them.

        Raises:
            InputError: the levels conflict.
        """
        return Setup(lab=self._lab_of(cell), measures=self._measures_of(cell))

    def written(self, cell: Cell) -> Setup:
        """Return the lab and the measures of one cell, including plain links.

        Raises:
            InputError: the levels conflict.
        """
        return Setup(lab=self._written_lab(cell), measures=self._measures_of(cell))

    def _lab_of(self, cell: Cell) -> Lab:
        """Return the lab of a cell: the same object for cells that differ only in their measures."""
        at = self.lab_levels(cell)
        if at not in self._labs:
            lab = without_plain(self._written_lab(cell))
            if len(self._labs) >= MOST_LABS:
                self._labs.clear()
            self._labs[at] = lab
        return self._labs[at]

    def _written_lab(self, cell: Cell) -> Lab:
        found: dict[str, dict[str, BaseModel]] = {"machines": {}, "links": {}, "volumes": {}}
        for section in self._base:
            if section.group != "measure" and (model := self.model(section, cell)) is not None:
                found[section.group][section.name] = model
        return Lab(
            machines=cast("dict[str, Machine]", found["machines"]),
            links=cast("dict[str, Link]", found["links"]),
            volumes=cast("dict[str, Volume]", found["volumes"]),
            consents=self._consents,
        )

    def _measures_of(self, cell: Cell) -> Mapping[str, Measure]:
        """Return the measures of a cell.

        A cell may lack the factors that a measure needs; that measure is then omitted if it cannot be resolved without
        them.
        """
        found: dict[str, Measure] = {}
        for section in self._base:
            if section.group != "measure":
                continue
            try:
                model = self.model(section, cell)
            except InputError:
                if all(branch.name in cell for branch in self._branches[section]):
                    raise
                model = None
            if model is not None:
                found[section.name] = cast("Measure", model)
        return self._at_once(found, cell)

    def _at_once(self, measures: Mapping[str, Measure], cell: Cell) -> Mapping[str, Measure]:
        """Return the measures that run in a cell; parts of a `together` measure get settings that do not collide."""
        found = {name: one for name, one in measures.items() if self._is_taken(name, cell)}
        for parts in self.together.values():
            for number, name in enumerate(part for part in parts if part in found):
                as_part = measure_kinds()[found[name].kind].as_part
                found[name] = found[name] if as_part is None else as_part(found[name], number)
        return found

    def _is_taken(self, measure: str, cell: Cell) -> bool:
        """Whether a measure runs in a cell: alone, or as a part of a `together` measure that includes it there."""
        taker = (
            self.model(Section("measure", self.taken_by(measure)), cell) if self.taken_by(measure) else None
        )
        if not isinstance(taker, Measure) or (parts := measure_kinds()[taker.kind].parts) is None:
            return True
        return parts(taker).get(measure) is not None

    def absent(self, cell: Cell) -> UnmetRequirement | None:
        """Return the reason why the site has no such cell; None if the site has the cell, or if there is no site."""
        for name, labels in self._absent.items():
            if (label := cell.get(name, "")) in labels:
                return labels[label]
        return None

    def lab_levels(self, cell: Cell) -> tuple[str | None, ...]:
        """Return the labels of the factors and sub-factors that change the lab of a cell."""
        return tuple([cell.get(name) for name in self._lab_names])

    def lab_key(self, cell: Cell) -> str:
        """Return the digest of a cell's resolved lab: labs with equal content have equal keys, whatever the labels."""
        labels = self.lab_levels(cell)
        key = self._lab_keys.get(labels)
        if key is None:
            if len(self._lab_keys) >= MOST_REMEMBERED:
                self._lab_keys.clear()
            parts = [
                said + digest for section, said in self._varied if (digest := self._digest(section, cell))
            ]
            key = self._lab_keys[labels] = _hash("\n".join(sorted((*self._constant(), *parts))))
        return key

    def _constant(self) -> tuple[str, ...]:
        """Return the parts of `lab_key` for the sections that no factor changes."""
        if self._constants is None:
            same = (section for section in self._lab if not self._names[section])
            self._constants = tuple(f"{section} {self._digest(section, {})}" for section in same)
        return self._constants

    def measure_key(self, cell: Cell, measure: str) -> str:
        """Return the digest of a measure's name and content in a cell, including the measures that run in parallel.

        The digest is empty if the cell does not have the measure.
        """
        own = self._digest(Section("measure", measure), cell)
        taker = self.taken_by(measure)
        if not own or not taker:
            return own
        if not self._is_taken(measure, cell):
            return ""
        return _hash(f"{own}\n{self.group_key(cell, taker)}")

    def group_key(self, cell: Cell, taker: str) -> str:
        """Return the digest of all parts of a `together` measure in a cell."""
        names = (taker, *self.together[taker])
        return _hash("\n".join(self._digest(Section("measure", name), cell) for name in names))

    def model(self, section: Section, cell: Cell) -> BaseModel | None:
        """Return the model of a section in a cell; None if the cell does not have the section. Raises InputError."""
        at = (section, tuple([cell.get(name) for name in self._names[section]]))
        if at in self._models:
            return self._models[at]
        if len(self._models) >= MOST_MODELS:
            self._models.clear()
        model = self._models[at] = self._resolved(section, cell)
        return model

    def variant(self, section: Section, cell: Cell) -> Variant:
        """Return the data of a section with the levels of a cell applied. May raise NoSuchItem."""
        changes = sorted(active(self._branches[section], cell), key=lambda change: change.order)
        data, line = self._base[section], self._lines[section]
        own: dict[int, Any] = {}
        for change in changes:
            if not change.words:
                data, line = change.value, change.line
            elif data is not None and data != "none":
                data = put(data, change.words, change.value, change.line, own)
        return Variant(None if data == "none" else data, line)

    def _resolved(self, section: Section, cell: Cell) -> BaseModel | None:
        problems = Problems(self._source)
        try:
            data, line = self.variant(section, cell)
        except NoSuchItem as error:
            problems.add(
                error.line,
                Phrase("check.resolving", place=section.place),
                Phrase("check.item", word=error.word),
                Phrase("check.item-of-list"),
            )
            raise problems.error() from error
        if data is None:
            return None
        model = validated(section, data, stored=self._stored)
        if model is None:
            check(section, data, line, problems, stored=self._stored)
            raise problems.error()
        return model

    def _digest(self, section: Section, cell: Cell) -> str:
        at = (section, tuple([cell.get(name) for name in self._names[section]]))
        digest = self._digests.get(at)
        if digest is None:
            if len(self._digests) >= MOST_REMEMBERED:
                self._digests.clear()
            model = self.model(section, cell)
            digest = self._digests[at] = "" if model is None else _hash(f"{section}\n{canonical(model)}")
        return digest


@answered_once
def resolver_of(experiment: Experiment) -> Resolver:
    """Return the resolver of an experiment; there is one per experiment, so that all callers share its caches."""
    return Resolver(experiment)


def canonical(model: BaseModel) -> str:
    """Return a model's content in canonical form: sorted keys, resolved units, no defaults."""
    return _ENCODER.encode(model.model_dump(mode="json", by_alias=True, exclude_defaults=True))


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def _line(tree: Mapping[str, Any], section: Section) -> int:
    holder = tree.get("measure") if section.group == "measure" else (tree.get("lab") or {}).get(section.group)
    return line_of(holder, section.name)
