"""A cell's levels applied to the base document: typed models of one cell, and digests of what they say.

Work is done section by section (one machine, link, volume or measure), once per distinct combination of the factors
that touch that section, so that a walk over 100 000 cells resolves only what differs between them.
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
from iolab.experiment.model.links import Link, Volume
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.measures import Measure
from iolab.experiment.reading.document import line_of
from iolab.experiment.reading.problems import Problems
from iolab.experiment.reading.sections import check, tables, validated
from iolab.locale import Phrase
from iolab.messages.unmet import UnmetRequirement
from iolab.registry.registry import measure_kinds

DIGEST_BYTES = 16
"""128 bits: a collision among 10^7 cells has a chance below 10^-24."""

MOST_REMEMBERED = 250_000
"""Digests kept per memo; beyond, it starts empty again."""

MOST_MODELS = 5_000
"""Models kept; beyond, they start empty again."""

MOST_LABS = 250
"""Labs kept, each with what was asked about it; beyond, they start empty again."""


class Variant(NamedTuple):
    """One section in one cell."""

    data: Any
    """Plain data with all levels applied; None where the section is absent."""
    line: int
    """Where it begins in the file."""


class Resolver:
    """Resolves cells of one experiment; remembers what it resolved. `resolver_of` makes it, once."""

    def __init__(self, experiment: Experiment) -> None:
        base = tables(experiment.tree)
        places = survey(experiment.tree, level_paths(experiment.factors), experiment.scopes)
        self._source = experiment.source
        self._stored = experiment.stored
        self.site = experiment.site
        """Where the machines are, where that is said apart from the lab."""
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
        """Measures that take others at once, each with their names, in their order."""
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
        """Every section that some cell has."""
        return tuple(self._base)

    def content(self, section: Section) -> object:
        """Return what decides what a section is in any cell, for comparison: its group, base data and changes."""
        return section.group, self._base[section], self._branches[section]

    def line(self, section: Section) -> int:
        """Return the line at which the base document begins a section; 0 where only a level makes it."""
        return self._lines[section]

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures that give figures, in the order written."""
        return self._measures

    def taken_by(self, measure: str) -> str:
        """Return the name of what takes a measure at once with others; empty: it is taken by itself."""
        return self._taken_by.get(measure, "")

    def companions(self, measure: str) -> tuple[str, ...]:
        """Return the measures that are taken at once with one, itself among them, in their order."""
        return self.together.get(self.taken_by(measure), (measure,))

    def _parts(self, measure: str, named: Sequence[str]) -> tuple[str, ...]:
        """Return the measures, of those that there are, that the base document has a measure take at once."""
        section = Section("measure", measure)
        model = validated(section, self._base[section], stored=self._stored)
        if not isinstance(model, Measure) or (parts := measure_kinds()[model.kind].parts) is None:
            return ()
        return tuple(part for part in parts(model) if part in named)

    def factors_of(self, section: Section, keys: frozenset[str] | None = None) -> tuple[str, ...]:
        """Return the factors, and those above them, that change a section (`keys`: one of these of it)."""
        return self._names[section] if keys is None else names_of(narrowed(self._branches[section], keys))

    def touches(self, factor_name: str, measure_name: str) -> bool:
        """Tell whether a factor, or a sub-factor of it, changes the lab, this measure or one that is taken with it."""
        own = {*self.companions(measure_name), self.taken_by(measure_name)}
        return any(
            section.group != "measure" or section.name in own
            for section in self._touched.get(factor_name, ())
        )

    def setup(self, cell: Cell) -> Setup:
        """Return one cell's lab and measures, where links with nothing of their own stand for what is below.

        Raises:
            InputError: these levels do not fit together.
        """
        return Setup(lab=self._lab_of(cell), measures=self._measures_of(cell))

    def written(self, cell: Cell) -> Setup:
        """Return one cell's lab and measures as they are written.

        Raises:
            InputError: these levels do not fit together.
        """
        return Setup(lab=self._written_lab(cell), measures=self._measures_of(cell))

    def _lab_of(self, cell: Cell) -> Lab:
        """Return a cell's lab: the same object for cells that differ in their measures alone."""
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
        )

    def _measures_of(self, cell: Cell) -> Mapping[str, Measure]:
        """Return a cell's measures.

        A cell may lack the factors of a measure that is not meant; that measure is then left out where it needs them.
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
        """Return the measures of a cell that are taken there; several at once as each can be beside the others."""
        found = {name: one for name, one in measures.items() if self._is_taken(name, cell)}
        for parts in self.together.values():
            for number, name in enumerate(part for part in parts if part in found):
                as_part = measure_kinds()[found[name].kind].as_part
                found[name] = found[name] if as_part is None else as_part(found[name], number)
        return found

    def _is_taken(self, measure: str, cell: Cell) -> bool:
        """Tell whether a measure is taken in a cell: by itself, or by what takes it there."""
        taker = (
            self.model(Section("measure", self.taken_by(measure)), cell) if self.taken_by(measure) else None
        )
        if not isinstance(taker, Measure) or (parts := measure_kinds()[taker.kind].parts) is None:
            return True
        return parts(taker).get(measure) is not None

    def absent(self, cell: Cell) -> UnmetRequirement | None:
        """Return why the site has no such cell; None where it has, or there is no site."""
        for name, labels in self._absent.items():
            if (label := cell.get(name, "")) in labels:
                return labels[label]
        return None

    def lab_levels(self, cell: Cell) -> tuple[str | None, ...]:
        """Return the labels of a cell that change its lab, sub-factors included."""
        return tuple([cell.get(name) for name in self._lab_names])

    def lab_key(self, cell: Cell) -> str:
        """Return the digest of the cell's resolved lab: same content, same key, whatever its labels."""
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
        """Return what `lab_key` says of the sections that no factor changes."""
        if self._constants is None:
            same = (section for section in self._lab if not self._names[section])
            self._constants = tuple(f"{section} {self._digest(section, {})}" for section in same)
        return self._constants

    def measure_key(self, cell: Cell, measure: str) -> str:
        """Return the digest of a measure's name and resolved content in a cell, and of what is taken at once with it.

        Empty: the cell does not have it.
        """
        own = self._digest(Section("measure", measure), cell)
        taker = self.taken_by(measure)
        if not own or not taker:
            return own
        if not self._is_taken(measure, cell):
            return ""
        return _hash(f"{own}\n{self.group_key(cell, taker)}")

    def group_key(self, cell: Cell, taker: str) -> str:
        """Return the digest of all measures that one takes at once, in a cell."""
        names = (taker, *self.together[taker])
        return _hash("\n".join(self._digest(Section("measure", name), cell) for name in names))

    def model(self, section: Section, cell: Cell) -> BaseModel | None:
        """Return a section's model in a cell; None where the cell does not have it. Raises InputError."""
        at = (section, tuple([cell.get(name) for name in self._names[section]]))
        if at in self._models:
            return self._models[at]
        if len(self._models) >= MOST_MODELS:
            self._models.clear()
        model = self._models[at] = self._resolved(section, cell)
        return model

    def variant(self, section: Section, cell: Cell) -> Variant:
        """Return a section's data with the cell's levels applied. May raise NoSuchItem."""
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
    """Return the resolver of an experiment: one, so that whatever asks it shares what it remembers."""
    return Resolver(experiment)


def canonical(model: BaseModel) -> str:
    """Return a model's content as text that depends on nothing else: sorted keys, resolved units, no defaults."""
    return _ENCODER.encode(model.model_dump(mode="json", by_alias=True, exclude_defaults=True))


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def _line(tree: Mapping[str, Any], section: Section) -> int:
    holder = tree.get("measure") if section.group == "measure" else (tree.get("lab") or {}).get(section.group)
    return line_of(holder, section.name)
