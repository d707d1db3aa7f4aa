"""Lines of commands.jsonl from before its keys were complete; the file says no schema."""

from pydantic_core import SchemaValidator, core_schema

from iolab.store.upgrade.stated import quoted
from iolab.store.upgrade.steps import INTEGER, TEXT, Json, many, or_none, record

_FIRST = {
    "machine": TEXT,
    "netns": or_none(TEXT),
    "argv": many(TEXT),
    "undo": or_none(many(TEXT)),
    "exit_status": or_none(INTEGER),
    "duration_ns": INTEGER,
}
_NOTES = {"notes": many(TEXT)}
OLD_COMMAND = SchemaValidator(
    core_schema.union_schema(
        [
            record(_FIRST),
            record({**_FIRST, "kernel": TEXT}, _NOTES),
            record({**_FIRST, "kernel": TEXT, "undo_netns": or_none(TEXT)}, _NOTES),
        ]
    )
)
"""What was written: first without the kernel, then without the namespace of the undo, then with notes in words."""


def command(line: Json) -> Json:
    """Return a line of an older version as it is today; notes in words are quoted."""
    later: Json = {"kernel": "", "undo_netns": None}
    return {**later, **line, "notes": [quoted(each) for each in line.get("notes", ())]}
