"""Validate one section of an experiment (a machine, link, volume or measure): plain data to a model, or problems."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from iolab.experiment.experiment import Section
from iolab.experiment.model.quantities import STORED
from iolab.experiment.reading.document import line_of
from iolab.experiment.reading.grammar import allowed, annotation_at, choices, keys, members, models
from iolab.experiment.reading.old_keys import instead
from iolab.experiment.reading.problems import Problems, did_you_mean, listed
from iolab.locale import Phrase, Text
from iolab.registry.guard import place_of
from iolab.registry.registry import instrument_kinds, package_behind
from iolab.units import UnitError

MISSING = object()
"""Object that represents a missing value."""


def tables(tree: Mapping[str, Any]) -> dict[Section, Any]:
    """Return the sections of a base document, in file order."""
    lab = tree.get("lab") or {}
    groups = {group: lab.get(group) or {} for group in ("machines", "links", "volumes")} | {
        "measure": tree.get("measure") or {}
    }
    return {Section(group, name): data for group, content in groups.items() for name, data in content.items()}


def model_of(section: Section, data: object) -> type[BaseModel] | None:
    """Return the model for a section's data; None if its kind is missing or unknown."""
    kinds = models()[section.group]
    if "" in kinds:
        return kinds[""]
    kind = data.get("kind") if isinstance(data, Mapping) else None
    return kinds.get(kind) if isinstance(kind, str) else None


def validated(section: Section, data: object, *, stored: bool) -> BaseModel | None:
    """Return the validated model of a section's data; None if it is invalid.

    `stored` is set if the data comes from a run folder.
    """
    model = model_of(section, data)
    if model is None:
        return None
    try:
        return model.model_validate(data, by_alias=True, by_name=False, context={STORED: stored})
    except ValidationError:
        return None
    except Exception as error:
        if package_behind(error) is None:
            raise
        return None  # `check` reports the problem


def check(
    section: Section,
    data: object,
    line: int,
    problems: Problems,
    *,
    stored: bool,
    partial: bool = False,
) -> BaseModel | None:
    """Return the model of a section's data, or report the problems; `partial` allows missing keys."""
    if not isinstance(data, Mapping):
        what = (
            Phrase("check.mapping-with-kind", kind=next(iter(models()[section.group])))
            if section.group in ("machines", "measure")
            else Phrase("check.a-mapping")
        )
        problems.add(line, Phrase("check.reading", place=section.place), data, what)
        return None
    model = model_of(section, data)
    if model is None:
        _note_kind(section, data, line, problems, partial=partial)
        return None
    try:
        return model.model_validate(data, by_alias=True, by_name=False, context={STORED: stored})
    except ValidationError as error:
        details: dict[tuple[str | int, ...], ErrorDetails] = {}
        for detail in error.errors(include_url=False):
            details.setdefault(_place(data, detail), detail)
        for place, detail in details.items():
            inner = any(other[: len(place)] == place for other in details if other != place)
            if not inner and not (partial and detail["type"] == "missing"):
                _note(section, model, data, place, detail, line, problems)
        return None
    except Exception as error:
        package = package_behind(error)
        if package is None:
            raise
        seen = Phrase("check.raised-at", error=type(error).__name__, place=place_of(error), message=error)
        allowed_of_model = Phrase("check.model-raises-only-value-error", data=repr(data["kind"]))
        advice = Phrase("check.fix-or-update-package", package=package)
        problems.add(line, Phrase("check.reading", place=section.place), seen, allowed_of_model, advice)
        return None


def _note_kind(
    section: Section, data: Mapping[str, Any], line: int, problems: Problems, *, partial: bool
) -> None:
    kinds = tuple(models()[section.group])
    if "kind" in data:
        at = line_of(data, "kind", line)
        problems.add(
            at,
            Phrase("check.reading-kind", place=section.place),
            data["kind"],
            listed(kinds),
            instead(f"{section.group}.kind", data["kind"]) or did_you_mean(data["kind"], kinds),
        )
        return
    if not partial:
        near = next((word for word in map(str, data) if did_you_mean(word, ["kind"])), None)
        advice = (
            Phrase("check.meant-to-be-kind", word=near)
            if near
            else Phrase("check.add-kind", kind=kinds[-1 if section.group == "machines" else 0])
        )
        problems.add(
            line_of(data, None, line),
            Phrase("check.reading", place=section.place),
            Phrase("check.no-kind"),
            Phrase("check.kind-one-of", kinds=listed(kinds)),
            advice,
        )


def _place(data: Any, detail: ErrorDetails) -> tuple[str | int, ...]:
    """Return the place of an error in the data: pydantic's location without the names of union members."""
    place: list[str | int] = []
    for word in detail["loc"]:
        inner = _inside(data, word)
        if inner is not MISSING:
            data = inner
            place.append(word)
    if detail["type"] == "missing":
        place.append(detail["loc"][-1])
    return tuple(place)


def _inside(data: object, word: str | int) -> Any:
    if isinstance(data, Mapping):
        return data.get(word, MISSING)
    if isinstance(data, list) and isinstance(word, int) and word < len(data):
        return data[word]
    return MISSING


def _note(
    section: Section,
    model: type[BaseModel],
    data: object,
    place: tuple[str | int, ...],
    detail: ErrorDetails,
    line: int,
    problems: Problems,
) -> None:
    outer: Any = data
    for word in place[:-1]:
        line = line_of(outer, word, line)
        outer = outer[word]
    last = place[-1] if place else None
    line = line_of(outer, last, line)
    doing = Phrase("check.reading", place=".".join(map(str, (section.place, *place))))
    if detail["type"] == "missing":
        within = annotation_at(model, place)
        problems.add(
            line,
            doing,
            Phrase("check.no-key", key=last),
            allowed(within) if within is not None else Phrase("check.a-value-for", key=last),
            Phrase("check.add-value", key=last),
        )
        return
    if detail["type"] == "extra_forbidden":
        known = _siblings(model, place, outer)
        of_group = instead(section.group if len(place) == 1 else f"{section.group}.{place[0]}", last)
        near = of_group or did_you_mean(last, known)
        problems.add(
            line, doing, Phrase("check.the-key", key=last), Phrase("check.the-keys", keys=listed(known)), near
        )
        return
    seen = outer[last] if last is not None else data
    if detail["type"] in ("union_tag_invalid", "union_tag_not_found"):
        _note_instrument(seen, line, doing, problems)
        return
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, UnitError):
        problems.add(line, doing, seen, cause.allowed, cause.advice)
        return
    if cause is not None and str(cause):  # text from a validator of a different package
        problems.add(line, doing, seen, str(cause))
        return
    annotation = annotation_at(model, place)
    words = choices(annotation)
    advice = did_you_mean(seen, words) if isinstance(seen, str) else ""
    if isinstance(seen, bool) and "on" in words:
        advice = Phrase("check.did-you-mean", word="on" if seen else "off")
    problems.add(line, doing, seen, allowed(annotation), advice)


def _note_instrument(seen: object, line: int, doing: Text, problems: Problems) -> None:
    """Report an instrument whose kind is missing or unknown."""
    kinds = tuple(instrument_kinds())
    if isinstance(seen, Mapping) and "kind" not in seen:
        problems.add(
            line_of(seen, None, line),
            doing,
            Phrase("check.no-kind"),
            Phrase("check.kind-one-of", kinds=listed(kinds)),
            Phrase("check.add-a-kind"),
        )
        return
    if isinstance(seen, Mapping):
        doing = Phrase("check.doing-at-kind", doing=doing)
        line, seen = line_of(seen, "kind", line), seen["kind"]
    problems.add(line, doing, seen, listed(kinds), did_you_mean(seen, kinds))


def _siblings(
    model: type[BaseModel], place: tuple[str | int, ...], outer: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the valid keys at a place; if they depend on the kind, the keys for the given kind."""
    found = [
        keys(member)
        for member, _ in members(annotation_at(model, place[:-1]))
        if isinstance(member, type) and issubclass(member, BaseModel)
    ]
    of_kind = [each for each in found if "kind" in each and outer.get("kind") in choices(each["kind"])]
    return tuple(dict.fromkeys(key for each in of_kind or found for key in each))
