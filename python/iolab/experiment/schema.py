"""Generate the JSON Schema of the language and its reference page from the models."""

import textwrap
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import models_json_schema

from iolab.experiment.check import LARGEST_SEED, MOST_BLOCKS
from iolab.experiment.factors.summaries import SHOWN, STATISTICS
from iolab.experiment.reading.grammar import (
    allowed,
    default,
    described_models,
    members,
    models_in,
    models_within,
    quantity,
)
from iolab.experiment.reading.problems import compact

DIALECT = "https://json-schema.org/draft/2020-12/schema"

NAME = r"^[A-Za-z0-9]([A-Za-z0-9_-]|\[\*\])*$"  # [*] stands for each counted machine


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of an experiment file."""
    tops = [model for group in described_models().values() for model in group.values()]
    named, whole = models_json_schema([(model, "validation") for model in tops], by_alias=True)
    every = {model.__name__: model for top in tops for model in (top, *models_within(top))}
    # The internal value of a quantity is not valid in a file.
    written = {name: part for name, part in whole["$defs"].items() if name in every}
    found: dict[str, Any] = {name: _relaxed(part, every[name]) for name, part in written.items()}
    refs = {
        group: [named[model, "validation"] for model in kinds.values()]
        for group, kinds in described_models().items()
    }
    found |= _factor_definitions()
    return {
        "$schema": DIALECT,
        "title": "iolab experiment",
        "description": "Machines, links and volumes, what to measure, and what to vary.",
        "type": "object",
        "additionalProperties": False,
        "required": ["lab", "measure"],
        "properties": _top(refs),
        "$defs": dict(sorted(found.items())),
    }


def _top(refs: Mapping[str, list[Any]]) -> dict[str, Any]:
    groups = {
        "machines": "Hosts, network namespaces and virtual machines, by name.",
        "links": "What joins their ports, by name.",
        "volumes": "Scratch files and LUNs that the lab makes, by name.",
    }
    return {
        "title": {
            "type": "string",
            "maxLength": 200,
            "description": "One line for people; absent: the file's name.",
        },
        "lab": {
            "type": "object",
            "description": "What must stand before anything is measured.",
            "additionalProperties": False,
            "required": ["machines"],
            "properties": {group: _named(refs[group], text, 15) for group, text in groups.items()},
        },
        "measure": _named(refs["measure"], "What is measured in every cell that concerns it, by name.", 40),
        "factors": {"$ref": "#/$defs/Factors"},
        "baseline": {
            "type": "object",
            "description": "Factor to the label that the others are compared with.",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
            "examples": [{"links.lan.mtu": 1500}],
        },
        "blocks": _whole("How often every cell is measured.", 1, MOST_BLOCKS, 1),
        "seed": _whole("Of the random order.", 0, LARGEST_SEED, 1),
        "only": {"$ref": "#/$defs/Selectors", "description": "Where given, a cell must match one of these."},
        "except": {
            "$ref": "#/$defs/Selectors",
            "description": "A cell that matches one of these is left out.",
        },
        "quick": {
            "$ref": "#/$defs/Selectors",
            "description": "What --quick measures, in one block: cells that match one of these, whatever `only` says.",
        },
        "summarise": {
            "description": "Figures over the levels of a factor within a block; one entry, or a list of them.",
            "anyOf": [{"$ref": "#/$defs/Summary"}, {"type": "array", "items": {"$ref": "#/$defs/Summary"}}],
            "examples": [{"over": "rate.frame_size", "ratio": {"rate.direction": ["both-ways", "one-way"]}}],
        },
        "expect": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Expectation"}},
        "margin": {
            "type": ["string", "number"],
            "default": "2%",
            "description": "Largest relative difference that a gate calls equivalent.",
        },
        "site": _site(),
    }


def _site() -> dict[str, Any]:
    names = {"pattern": NAME, "maxLength": 15}
    cable = {"type": "array", "minItems": 2, "items": {"type": "string"}}
    texts = {
        "hosts": ("Name to where it is reached by ssh; none: this computer.", {"type": ["string", "null"]}),
        "on": ("Machine of the lab to the host that it runs on.", {"type": "string"}),
        "cables": ("Link of the lab to the cable that carries it, as host.interface of each end.", cable),
    }
    return {
        "type": "object",
        "description": "Where the machines are, where that is said apart from the lab; --on names a file with it.",
        "additionalProperties": False,
        "required": ["hosts"],
        "properties": {
            key: {
                "type": "object",
                "description": text,
                "propertyNames": names,
                "additionalProperties": value,
            }
            for key, (text, value) in texts.items()
        },
    }


def _factor_definitions() -> dict[str, Any]:
    levels = {"type": "array", "minItems": 1, "description": "Values; each is its own label."}
    labelled = {
        "type": "object",
        "minProperties": 1,
        "description": "Label to value, or label to {path: value}.",
    }
    labels = {
        "type": ["string", "number", "boolean", "array"],
        "description": "A label, or a list of labels.",
    }
    one = {
        "type": "object",
        "additionalProperties": labels,
        "description": "Factor to labels; all must hold.",
    }
    return {
        "Factors": {
            "type": ["object", "null"],
            "description": (
                "What is varied. A key is a dotted path (machines.NAME.KEY, links.NAME.KEY, volumes.NAME.KEY, "
                "MEASURE.KEY; * stands for every key at its place) with a list of values or a mapping of label to "
                "value, or any other name with a mapping of label to {path: value}. A level that owns sub-factors is "
                "{value: ..., factors: {...}}, or {path: value, factors: {...}} under a name."
            ),
            "additionalProperties": {"anyOf": [levels, labelled]},
            "examples": [
                {"links.lan.mtu": [1500, 9000]},
                {"network": {"plain": {}, "vlan": {"links.lan.vlan": 100}}},
            ],
        },
        "Selectors": {"anyOf": [one, {"type": "array", "items": one}]},
        "Summary": _summary(),
        "Expectation": _expectation(),
    }


def _expectation() -> dict[str, Any]:
    bound = {"type": ["string", "number"]}
    text = {"type": "string"}
    return {
        "type": "object",
        "description": "A result that the run must have: bounds, equivalence, or the limits of the trials.",
        "additionalProperties": False,
        "required": ["measure"],
        "properties": {
            "measure": text | {"description": "Name of the measure."},
            "metric": text | {"description": "Metric; absent: the leading metric."},
            "cell": {"$ref": "#/$defs/Selectors"},
            "ratio": {
                "type": "object",
                "description": "A factor to two of its levels: the first over the second.",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": {"type": "array", "minItems": 2, "maxItems": 2},
            },
            "min": bound | {"description": "Lower bound of the figure or ratio."},
            "max": bound | {"description": "Upper bound of the figure or ratio."},
            "equivalent": bound
            | {"description": "Largest relative difference of the two levels of `ratio`."},
            "verdict": {
                "description": "Limits, one of which every trial must have.",
                "anyOf": [text, {"type": "array", "minItems": 1, "items": text}],
            },
        },
    }


def _summary() -> dict[str, Any]:
    label = {"type": ["string", "number", "boolean"]}
    return {
        "type": "object",
        "description": "What is shown over the levels of one factor, all other levels being the same.",
        "additionalProperties": False,
        "required": ["over"],
        "properties": {
            "over": {"type": "string", "description": "The factor."},
            "show": {
                "type": "array",
                "minItems": 1,
                "items": {"enum": list(STATISTICS)},
                "default": list(SHOWN),
                "description": "Of its levels within one block.",
            },
            "ratio": {
                "type": ["object", "null"],
                "description": "Another factor to two of its levels: the first over the second.",
                "additionalProperties": {"type": "array", "items": label, "minItems": 2, "maxItems": 2},
            },
        },
    }


def _named(refs: list[Any], text: str, longest: int) -> dict[str, Any]:
    item = refs[0] if len(refs) == 1 else {"oneOf": refs}
    names = {"pattern": NAME, "maxLength": longest}
    return {"type": "object", "description": text, "propertyNames": names, "additionalProperties": item}


def _whole(text: str, low: int, high: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "default": default, "description": text}


def _relaxed(part: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return a model's schema that requires only its kind, because a factor may supply the other keys."""
    relaxed = {key: value for key, value in part.items() if key != "required"}
    infos = {info.alias or name: info for name, info in model.model_fields.items()}
    relaxed["properties"] = {
        key: _plain(value, infos[key]) for key, value in part.get("properties", {}).items()
    }
    return relaxed | ({"required": ["kind"]} if "kind" in part.get("required", ()) else {})


def _plain(part: Mapping[str, Any], info: FieldInfo) -> dict[str, Any]:
    """Return a key's schema without the redundant title, and with its default in file syntax."""
    plain = {key: value for key, value in part.items() if key not in ("title", "default")}
    value = default(info)
    return plain if value is None else plain | {"default": value}


BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"

FEWEST_SAME = 3
"""Minimum number of consecutive keys that get one common line, because an earlier model describes them in the same
way."""

TITLES = {"machines": "Machines", "links": "Links", "volumes": "Volumes", "measure": "Measures"}


def with_tables(page: str) -> str:
    """Return a page with the tables inserted between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join((before + BEGIN, "", *_tables(), END + after))


def _tables() -> Iterator[str]:
    described: set[type[BaseModel]] = set()
    origins: dict[str, str] = {}
    for group, kinds in described_models().items():
        yield f"### {TITLES[group]}\n"
        for kind, model in kinds.items():
            yield from _keys(model, f"`kind: {kind}`" if kind else f"`{group}`", origins)
            for part in models_within(model):
                if part not in described:
                    described.add(part)
                    yield from _keys(part, f"`{part.__name__}`", origins)


def _keys(model: type[BaseModel], title: str, origins: dict[str, str]) -> Iterator[str]:
    """Yield the keys of a model. Several keys in a row that an earlier model has too become one line.

    `origins` maps the line of a key to the title of the first model that has it; the model's lines are added.
    """
    yield f"**{title}** - {(model.__doc__ or '').strip()}\n"
    lines = {
        f"`{info.alias or name}`": f"`{info.alias or name}`: {_described(info)}"
        for name, info in model.model_fields.items()
    }
    for origin, group in groupby(lines, lambda key: origins.get(lines[key])):
        same = list(group)
        common = origin is not None and len(same) >= FEWEST_SAME
        for line in [f"{', '.join(same)}: as for {origin}."] if common else [lines[key] for key in same]:
            yield textwrap.fill(
                f"- {line}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
    for line in lines.values():
        origins.setdefault(line, title)
    yield ""


def _described(info: FieldInfo) -> str:
    """Return the allowed values, the default and the meaning of a key."""
    meaning = " ".join((info.description or "").split())
    return f"{_value(info)}{_default(info)}. {meaning}".rstrip()


def _value(info: FieldInfo) -> str:
    annotation = info.rebuild_annotation()
    kinds = {get_origin(member) for member, _ in members(annotation)}
    named = [f"`{part.__name__}`" for part in models_in(annotation)]
    unit = quantity(annotation)
    text = " or ".join(named) if named else unit.noun if unit else str(allowed(annotation))
    if named or unit:
        text = ("a list of " if tuple in kinds else "names with " if dict in kinds else "") + text
    return text


def _default(info: FieldInfo) -> str:
    value = default(info)
    return " (required)" if info.is_required() else "" if value is None else f"; default: `{compact(value)}`"
