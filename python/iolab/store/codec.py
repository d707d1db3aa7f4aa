"""Lines of trials.jsonl and commands.jsonl to and from their frozen types. Pure."""

import json
from dataclasses import asdict
from typing import Any

from iolab.errors import StoreError
from iolab.record.metric import Metric
from iolab.record.trial import CommandRecord, GuestUse, Status, TrialResult
from iolab.statements.warnings import Warning
from iolab.store.records import TRIAL_SCHEMA, TrialRecord


def encode_trial(record: TrialRecord) -> str:
    """Return the record as one line of JSON."""
    result = record.result
    document = {
        "schema": TRIAL_SCHEMA,
        "key": record.key,
        "measure": record.measure,
        "block": record.block,
        "cell": dict(record.cell),
        "wall": record.wall,
        "status": result.status.value,
        "reason": result.reason,
        "begin_ns": result.begin_ns,
        "end_ns": result.end_ns,
        "measured_ns": result.measured_ns,
        "metrics": {name: _metric(metric) for name, metric in result.metrics.items()},
        "warnings": [warning.model_dump(mode="json") for warning in result.warnings],
        **({"guests": {name: asdict(use) for name, use in result.guests.items()}} if result.guests else {}),
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _metric(metric: Metric) -> dict[str, str | float]:
    bound = {"limited_by": metric.limited_by} if metric.limited_by else {}
    return {"value": metric.value, "unit": metric.unit, **bound}


def decode_trial(line: str) -> TrialRecord:
    """Return the record of one line.

    Raises:
        StoreError: it was written by another version.
        ValueError, KeyError, TypeError: it is not a record.
    """
    row: dict[str, Any] = json.loads(line)
    if row["schema"] != TRIAL_SCHEMA:
        raise StoreError(
            f"reading a trial: its schema is {row['schema']}, this iolab reads {TRIAL_SCHEMA}; "
            "use the iolab that wrote it"
        )
    result = TrialResult(
        status=Status(row["status"]),
        reason=row["reason"],
        metrics={name: Metric(**metric) for name, metric in row["metrics"].items()},
        warnings=tuple(Warning.model_validate(warning) for warning in row["warnings"]),
        begin_ns=row["begin_ns"],
        end_ns=row["end_ns"],
        measured_ns=row["measured_ns"],
        guests={name: _guest_use(use) for name, use in row.get("guests", {}).items()},
    )
    return TrialRecord(
        key=row["key"],
        measure=row["measure"],
        block=row["block"],
        cell=row["cell"],
        wall=row["wall"],
        result=result,
    )


def _guest_use(row: dict[str, Any]) -> GuestUse:
    return GuestUse(**{**row, "polling": tuple(row.get("polling", ()))})


def encode_command(record: CommandRecord) -> str:
    """Return the command as one line of JSON."""
    document = {
        "machine": record.machine,
        "kernel": record.kernel,
        "netns": record.netns,
        "argv": record.argv,
        "undo": record.undo,
        "undo_netns": record.undo_netns,
        "exit_status": record.exit_status,
        "duration_ns": record.duration_ns,
        **({"notes": record.notes} if record.notes else {}),
    }
    return json.dumps(document, separators=(",", ":"))


def decode_command(line: str) -> CommandRecord:
    """Return the command of one line."""
    row: dict[str, Any] = json.loads(line)
    return CommandRecord(
        machine=row["machine"],
        kernel=row.get("kernel", ""),
        netns=row["netns"],
        argv=tuple(row["argv"]),
        undo=None if row["undo"] is None else tuple(row["undo"]),
        undo_netns=row["undo_netns"],
        exit_status=row["exit_status"],
        duration_ns=row["duration_ns"],
        notes=tuple(row.get("notes", ())),
    )
