"""The JSON Schema for editors: current, valid, and in agreement with the checker."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from iolab.errors import InputError
from iolab.experiment import json_schema, parse, starter
from iolab.experiment.reading.document import read
from iolab.experiment.reading.grammar import keys, models
from iolab.experiment.reading.problems import Problems
from iolab.experiment.schema import with_tables

ROOT = Path(__file__).parents[3]
FILES = [*sorted((ROOT / "labs").glob("*.yaml")), *sorted((Path(__file__).parent / "studies").glob("*.yaml"))]
GOOD = """\
lab: {machines: {a: {kind: netns}, b: {kind: netns}}, links: {lan: {ends: [a.eth0, b.eth0]}}}
measure: {tcp: {kind: stream, from: a, to: b}}
"""


def errors(text: str) -> list[str]:
    """Return the schema's errors on a text."""
    document = read(text.encode(), Problems("x"))
    return [error.message for error in validator().iter_errors(document)]


@cache
def validator() -> Draft202012Validator:
    """Return a validator of the schema."""
    return Draft202012Validator(json_schema())


def test_stored_schema_is_current() -> None:
    """Compare with the output of `iolab schema`; regenerate it after a change of the models."""
    stored = (ROOT / "contract" / "experiment.schema.json").read_text()
    assert stored == json.dumps(json_schema(), indent=2) + "\n"


def test_schema_is_a_valid_json_schema() -> None:
    """Validate against the 2020-12 meta-schema."""
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_schema_accepts_every_lab_and_study(path: Path) -> None:
    """Validate each file."""
    assert errors(path.read_text()) == []


@pytest.mark.parametrize(
    "part",
    [
        "blocks: 5\nseed: 0\ntitle: x", "factors:", "factors: {links.lan.mtu: [1]}", "factors: {x: {a: {}, b: }}",
        "only: {x: [1, on]}", "except: [{x: a}, {y: 6.0}]", "baseline: {x: 1500}",
    ],
)  # fmt: skip
def test_schema_accepts_every_optional_key(part: str) -> None:
    """Check every form of the language."""
    assert errors(GOOD + part) == []
    assert errors(str(starter("x"))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("measure:", "measures:"),
        ("lab:", "lap:"),
        ("links:", "link:"),
        ("kind: netns", "kind: netn"),
        ("kind: netns", "knid: netns"),
        ("kind: netns", "kind: vm, nic: virtio_net"),
        ("kind: netns", "kind: vm, cpus: 0"),
        ("kind: netns", "kind: vm, cpus: two"),
        ("ends: [a.eth0, b.eth0]", "ends: [a.eth0]"),
        ("ends: [a.eth0, b.eth0]", "ends: a.eth0"),
        ("b.eth0]", "b.eth0], mtu: 10"),
        ("b.eth0]", "b.eth0], offload: {tso: true}"),
        ("b.eth0]", "b.eth0], vlan: 4095"),
        ("b.eth0]", "b.eth0], shape: {at: a.eth0, qdisc: htbb}"),
        ("kind: stream", "kind: stream, parallel: 0"),
        ("kind: stream", "kind: stream, src: a"),
        ("kind: stream", "kind: steram"),
        ("measure:", "blocks: 0\nmeasure:"),
        ("measure:", "blocks: x\nmeasure:"),
        ("measure:", "baseline: [x]\nmeasure:"),
        ("measure:", "factors: [x]\nmeasure:"),
        ("measure:", "factors: {x: 1}\nmeasure:"),
        ("measure:", "only: x\nmeasure:"),
        ("measure:", "title: [x]\nmeasure:"),
        ("machines: {a:", "machines: {a b:"),
    ],
)
def test_schema_rejects_the_same_invalid_values_as_check(old: str, new: str) -> None:
    """Check errors that need no references."""
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    assert errors(text)
    with pytest.raises(InputError):
        parse(text, "x.yaml")


def test_schema_describes_every_key() -> None:
    """Require a description of each key of each model."""
    schema = json_schema()
    silent = [
        f"{name}.{key}" for name, part in schema["$defs"].items() for key, value in part.get("properties", {}).items()
        if "description" not in value and "$ref" not in value
    ]  # fmt: skip
    assert silent == []


def test_language_reference_lists_every_key() -> None:
    """Compare its tables with the models; `scripts/language_reference.py` writes them."""
    page = (ROOT / "docs" / "reference" / "experiment-language.md").read_text()
    assert page == with_tables(page)
    assert all(
        f"`{key}`" in page for group in models().values() for model in group.values() for key in keys(model)
    )


def test_every_example_of_the_language_reference_is_valid() -> None:
    """Check the first as a whole file, and the others as factors and selectors."""
    page = (ROOT / "docs" / "reference" / "experiment-language.md").read_text()
    first, *others = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert parse(first, "reference").blocks == 4
    for text in others:
        if text.startswith("factors:"):
            parse(GOOD + text, "reference")
        else:
            assert errors(GOOD + text) == []


def test_schema_defaults_are_written_with_units() -> None:
    """Check a duration with its unit, and a size with its letter."""
    defs = json_schema()["$defs"]
    assert defs["Stream"]["properties"]["duration"]["default"] == "10s"
    assert defs["Vm"]["properties"]["memory"]["default"] == "512M"
    assert defs["Watch"]["properties"]["window"]["default"] == ["12us", "100us", "1ms", "10ms"]
    assert defs["Forwarding"]["properties"]["loss_ratio"]["default"] == "0.0001"
