"""The tables of docs/reference/experiment-language.md, made from the models so that they cannot go stale.

`python -m iolab.experiment.reference FILE` writes them anew between the page's two marks; a test checks them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from iolab.experiment.grammar import MODELS, allowed, members
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
    for group, kinds in MODELS.items():
        yield f"### {TITLES[group]}\n"
        for kind, model in kinds.items():
            yield from _table(model, f"`kind: {kind}`" if kind else f"`{group}`")
            inner = [part for part in _parts(model) if part not in told]
            told += inner
            for part in inner:
                yield from _table(part, f"`{part.__name__}`")


def _parts(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models within a model, outer ones first."""
    for info in model.model_fields.values():
        for part in _models(info.rebuild_annotation()):
            yield part
            yield from _parts(part)


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    for member, _ in members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            yield member
        for inner in getattr(member, "__args__", ()):
            if inner is not Ellipsis and inner is not str:
                yield from _models(inner)


def _table(model: type[BaseModel], title: str) -> Iterator[str]:
    yield f"**{title}** - {(model.__doc__ or '').strip()}\n"
    yield "| key | what may be written | if absent | meaning |"
    yield "|---|---|---|---|"
    for name, info in model.model_fields.items():
        meaning = (info.description or "").replace("|", "\\|")
        yield f"| `{info.alias or name}` | {_value(info)} | {_default(info)} | {meaning} |"
    yield ""


def _value(info: FieldInfo) -> str:
    annotation = info.rebuild_annotation()
    named = [part.__name__ for part in _models(annotation)]
    if not named:
        return allowed(annotation).replace("|", "\\|")
    several = any(getattr(member, "__origin__", None) is tuple for member, _ in members(annotation))
    by_name = any(getattr(member, "__origin__", None) is dict for member, _ in members(annotation))
    return ("a list of " if several else "names with " if by_name else "") + f"`{named[0]}`"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ((), {}) or isinstance(value, BaseModel):
        return "-"
    return f"`{compact(value)}`"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_tables(page.read_text()))
