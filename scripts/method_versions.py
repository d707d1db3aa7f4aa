"""Compare the code of each metric with the code that was recorded when its method version was set.

    .venv/bin/python scripts/method_versions.py               # what changed; exits 1 where anything did
    .venv/bin/python scripts/method_versions.py --accept      # record the code of methods whose version was raised
    .venv/bin/python scripts/method_versions.py --unchanged   # record a change that cannot change any figure

docs/reference/compatibility.md defines when a version must be raised; code_digests.py defines what counts as a change
of code.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from code_digests import Code

from iolab.trial.methods import METHODS, MetricMethod

ROOT = Path(__file__).parents[1]
RECORD = Path("contract/method-versions.toml")
CHANGELOG = Path("CHANGELOG.md")
LINE = re.compile(r'"?([^"= ]+)"? = ("[0-9a-f]{16}"|\d+)')
"""A line of the record. Git merges the record by keeping the lines of both sides (.gitattributes)."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The content of the record: the code at the time when the method versions were set."""

    versions: Mapping[str, int]
    """Method to version."""
    code: Mapping[str, str]
    """Key to digest."""


def recorded(text: str) -> Recorded:
    """Read the record. If a merge has left several lines with one name, none of their digests is used."""
    lines = [match.groups() for match in map(LINE.fullmatch, text.splitlines()) if match is not None]
    versions = ((name, int(value)) for name, value in lines if value.isdecimal())
    digests: dict[str, set[str]] = {}
    for key, digest in ((name, value) for name, value in lines if not value.isdecimal()):
        digests.setdefault(key, set()).add(digest.strip('"'))
    code = {key: own.pop() if len(own) == 1 else "several" for key, own in digests.items()}
    return Recorded(dict(sorted(versions)), code)


def written(methods: Sequence[MetricMethod], code: Code) -> str:
    """Return the record of the current tree."""
    digests = {key: digest for row in methods for ref in row.code for key, digest in code.behind(ref).items()}
    lines = [
        "# Made by scripts/method_versions.py: the code behind each metric when the version of its method was set.",
        "",
    ]
    lines += [
        "[versions]",
        *(f"{row.name} = {row.version}" for row in sorted(methods, key=lambda one: one.name)),
        "",
    ]
    lines += ["[code]", *(f'"{key}" = "{digests[key]}"' for key in sorted(digests))]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Change:
    """A method whose code differs from the record."""

    method: MetricMethod
    changed: tuple[str, ...]
    """Keys of the changed code; empty: only the version changed."""
    raised: bool
    """Whether the method's version is higher than the recorded version."""

    def __str__(self) -> str:
        """Return the change and the remedy as text."""
        what = ", ".join(self.changed) or "its version"
        if self.raised:
            return f"{self.method.name}, version {self.method.version}: {what} changed; record it: --accept"
        return (
            f"{self.method.name}, version {self.method.version}: {what} changed. Where a figure can change, raise the "
            'version in python/iolab/trial/methods.py, write a line under "Figures may change" in CHANGELOG.md, and '
            "run scripts/method_versions.py --accept. Where no figure can change, run it with --unchanged"
        )


def changes(methods: Sequence[MetricMethod], code: Code, before: Recorded) -> Iterator[Change]:
    """Yield the methods whose code or version differs from the record; moved code counts as unchanged."""
    now = {
        row.name: {key: digest for ref in row.code for key, digest in code.behind(ref).items()}
        for row in methods
    }
    present = {key for own in now.values() for key in own}
    moved = {digest for key, digest in before.code.items() if key not in present}
    for row in methods:
        own = now[row.name]
        changed = tuple(
            sorted(
                key
                for key, digest in own.items()
                if before.code.get(key) != digest and (key in before.code or digest not in moved)
            )
        )
        version = before.versions.get(row.name)
        if changed or version != row.version:
            yield Change(row, changed, version is None or row.version > version)


def without_line(methods: Sequence[MetricMethod], changelog: str) -> Iterator[str]:
    """Yield the methods with a raised version that no line under "Figures may change" names."""
    parts = re.findall(r"^### Figures may change$(.*?)(?=^##|\Z)", changelog, re.MULTILINE | re.DOTALL)
    text = "\n".join(parts)
    for row in methods:
        if row.version > 1 and not re.search(rf"`{re.escape(row.name)}` {row.version}\b", text):
            yield f'{row.name}: CHANGELOG.md has no line `{row.name}` {row.version} under "Figures may change"'


def main(options: Sequence[str]) -> int:
    """Compare or record; return the exit code."""
    code, path = Code(ROOT), ROOT / RECORD
    before = recorded(path.read_text(encoding="utf-8")) if path.is_file() else Recorded({}, {})
    found = list(changes(METHODS, code, before))
    lacking = list(without_line(METHODS, (ROOT / CHANGELOG).read_text(encoding="utf-8")))
    open_ones = [one for one in found if not one.raised]
    print("\n".join([*map(str, found), *lacking]) or f"{len(METHODS)} methods: as recorded")
    if lacking or not found or not options or (open_ones and "--unchanged" not in options):
        return 1 if lacking or found else 0
    path.write_text(written(METHODS, code), encoding="utf-8")
    print(f"recorded in {RECORD}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
