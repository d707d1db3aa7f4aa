"""The tables of docs/reference/experiment-language.md, made from the models so that they cannot go stale.

`scripts/language_reference.py` rewrites them between the page's two marks; a test checks them.
"""

from collections.abc import Iterator
from typing import get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from iolab.experiment.grammar import (
    allowed,
    default,
    described_models,
    members,
    models_in,
    models_within,
    quantity,
)
from iolab.experiment.problems import compact

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
TITLES = {"machines": "Machines", "links": "Links", "volumes": "Volumes", "measure": "Measures"}


def with_tables(page: str) -> str:
    """Return a page with the tables between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join((before + BEGIN, "", *_tables(), END + after))


def _tables() -> Iterator[str]:
    told: list[type[BaseModel]] = []
    for group, kinds in described_models().items():
        yield f"### {TITLES[group]}\n"
        for kind, model in kinds.items():
            yield from _table(model, f"`kind: {kind}`" if kind else f"`{group}`")
            inner = [part for part in models_within(model) if part not in told]
            told += inner
            for part in inner:
                yield from _table(part, f"`{part.__name__}`")


def _table(model: type[BaseModel], title: str) -> Iterator[str]:
    yield f"**{title}** - {(model.__doc__ or '').strip()}\n"
    yield "| key | what may be written | if absent | meaning |"
    yield "|---|---|---|---|"
    for name, info in model.model_fields.items():
        meaning = " ".join((info.description or "").split()).replace("|", "\\|")
        yield f"| `{info.alias or name}` | {_value(info)} | {_default(info)} | {meaning} |"
    yield ""


def _value(info: FieldInfo) -> str:
    annotation = info.rebuild_annotation()
    kinds = {get_origin(member) for member, _ in members(annotation)}
    named = [f"`{part.__name__}`" for part in models_in(annotation)]
    unit = quantity(annotation)
    text = " or ".join(named) if named else unit.noun if unit else allowed(annotation).replace("|", "\\|")
    if named or unit:
        text = ("a list of " if tuple in kinds else "names with " if dict in kinds else "") + text
    return text


def _default(info: FieldInfo) -> str:
    value = default(info)
    return "required" if info.is_required() else "-" if value is None else f"`{compact(value)}`"
