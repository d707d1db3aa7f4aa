"""Encode and decode lines of trials.jsonl and commands.jsonl, and packet trials. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar, get_type_hints

from iolab.locale import Phrase, Text
from iolab.results.encoding import Encoding, Malformed
from iolab.results.metric import Heads, Method, Metric, Metrics, Quantity
from iolab.results.packets import PacketTrial
from iolab.results.trial import CommandRecord, TrialResult
from iolab.store.records import PACKETS_SCHEMA, TRIAL_SCHEMA, TrialRecord
from iolab.store.upgrade.packets import PACKETS_STEPS, of_evidence
from iolab.store.upgrade.steps import Steps, applied, decoded, upgraded, version_of
from iolab.store.upgrade.trials import OLD_COMMAND, TRIAL_STEPS, command, lacks_only_methods

T = TypeVar("T")
NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""Shared empty mapping of trials without guests or bounds."""


_OF_RECORD = tuple(each.name for each in fields(TrialRecord) if each.name != "result")
_OF_RESULT = tuple(each.name for each in fields(TrialResult))
_LATER: Mapping[str, Any] = {
    "verdict": field(default=None),
    "guests": field(default_factory=dict),
    "sets_each_load": field(default=False),
    "in_effect": field(default_factory=dict),
}
"""Keys that were added later: they are at the end of a line, and omitted if they have their default values."""


def _trial_line() -> Any:
    """Return the type of a line of trials.jsonl: its schema, then the fields of a record and of its result together."""
    types = get_type_hints(TrialRecord) | get_type_hints(TrialResult) | {"metrics": tuple[Metric, ...]}
    first = [(name, types[name]) for name in (*_OF_RECORD, *_OF_RESULT) if name not in _LATER]
    later = [(name, types[name], default) for name, default in _LATER.items()]
    shape: list[Any] = [("schema", int), *first, *later]
    return make_dataclass("_TrialLine", shape, frozen=True, slots=True, kw_only=True)


_TrialLine = _trial_line()


@dataclass(frozen=True, slots=True, kw_only=True)
class _PacketsFile:
    """A file of a packet trial in samples/, with all keys."""

    schema: int
    packets: PacketTrial


_TRIAL = Encoding(_TrialLine, defaults=True)
_COMMAND = Encoding(CommandRecord)
_PACKETS = Encoding(_PacketsFile)


def encode_trial(record: TrialRecord) -> str:
    """Return the record as one line of JSON.

    Raises:
        ValueError: the record contains a number that is not finite.
    """
    result = record.result
    every = {name: getattr(record, name) for name in _OF_RECORD}
    every |= {name: getattr(result, name) for name in _OF_RESULT}
    every["metrics"] = tuple(result.metrics)
    return _TRIAL.encode(_TrialLine(schema=TRIAL_SCHEMA, **every)).decode()


class TrialReader:
    """Reader for lines of trials.jsonl.

    Trials share equal objects, because a run may have a million trials in memory.
    """

    def __init__(self) -> None:
        self._heads: dict[tuple[str, int], list[Heads]] = {}
        self._cells: dict[tuple[str, ...], Mapping[str, str]] = {}
        self._unknown: dict[int, Heads] = {}
        self._at_once = True
        self.oldest = TRIAL_SCHEMA
        """Oldest schema of the lines read so far."""
        self._in_effect: dict[tuple[object, ...], Mapping[str, Mapping[str, str]]] = {}

    def read(self, line: bytes | str) -> TrialRecord:
        """Return the record of one line.

        Raises:
            StoreError: a newer version wrote the line.
            Malformed: the line is not a record; the message names the invalid field.
        """
        data = line.encode() if isinstance(line, str) else line
        version = version_of(data)
        at_once = self._read_at_once(data) if lacks_only_methods(data, version) else None
        row = at_once or _decoded(_TRIAL, data, version, TRIAL_STEPS, TRIAL_SCHEMA, Phrase("store.a-trial"))
        self.oldest = min(self.oldest, version)
        heads = self._heads_of(row)
        heads = heads if at_once is None else self._of_unknown_methods(heads)
        limits = {at: each.limited_by for at, each in enumerate(row.metrics) if each.limited_by}
        of_record = {name: getattr(row, name) for name in _OF_RECORD}
        of_record["cell"] = self._cells.setdefault((*row.cell, *row.cell.values()), row.cell)
        of_result = {name: getattr(row, name) for name in _OF_RESULT}
        of_result["metrics"] = Metrics.of(heads, [each.value for each in row.metrics], limits or NOTHING)
        of_result["guests"] = row.guests or NOTHING
        of_result["in_effect"] = self._shared(row.in_effect)
        return TrialRecord(**of_record, result=TrialResult(**of_result))

    def _read_at_once(self, line: bytes) -> Any:
        """Return a line as a record of the current schema.

        The result is None if this line or an earlier one has an older schema; later lines are then not tried either.
        """
        if self._at_once:
            try:
                return _TRIAL.decode(line)
            except Malformed:
                self._at_once = False
        return None

    def _of_unknown_methods(self, heads: Heads) -> Heads:
        """Return the same metadata with unknown method versions; equal lines share the returned object."""
        of = id(heads)  # kept alive by `_heads`
        if of not in self._unknown:
            self._unknown[of] = replace(heads, methods=(None,) * len(heads.methods))
        return self._unknown[of]

    def _shared(self, in_effect: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
        """Return an equal object that was read before."""
        key = tuple((place, *own.items()) for place, own in in_effect.items())
        return self._in_effect.setdefault(key, in_effect) if in_effect else NOTHING

    def _heads_of(self, row: Any) -> Heads:
        """Return the metadata of a line's metrics; lines with equal quantities share one object."""
        known = self._heads.setdefault((row.measure, len(row.metrics)), [])
        for heads in known:
            if all(map(_is_of, row.metrics, heads.quantities, heads.units, heads.better, heads.methods)):
                return heads
        try:
            heads = Metrics(row.metrics).heads
            if any(method is not None and method < 1 for method in heads.methods):
                raise ValueError(Phrase("store.method-below-one"))
            known.append(heads)
        except ValueError as error:
            raise Malformed(*error.args) from error
        return known[-1]


def _is_of(metric: Metric, of: Quantity, unit: str, better: str, method: Method) -> bool:
    same = metric.dimensions is of.dimensions or metric.dimensions == of.dimensions
    return same and (metric.name, metric.unit, metric.better, metric.method) == (
        of.name,
        unit,
        better,
        method,
    )


def encode_packets(packets: PacketTrial) -> bytes:
    """Return all data of a packet trial other than its metrics as JSON."""
    return _PACKETS.encode(_PacketsFile(schema=PACKETS_SCHEMA, packets=packets))


def decode_packets(text: bytes) -> PacketTrial:
    """Return the data that `encode_packets` wrote.

    Raises:
        StoreError: a newer version wrote the data.
        Malformed: the data is not a packet trial; the message names the invalid field.
    """
    version = version_of(text)
    return _decoded(_PACKETS, text, version, PACKETS_STEPS, PACKETS_SCHEMA, "samples").packets


def packets_in(evidence: bytes) -> PacketTrial | None:
    """Return the packet trial that older schemas stored in a trial's evidence; None: the evidence has no packet trial.

    Raises:
        Malformed: the packet trial is damaged; the message names the invalid field.
    """
    found = of_evidence(evidence)
    return None if found is None else _PACKETS.decode(applied(found, PACKETS_STEPS, PACKETS_SCHEMA)).packets


def encode_command(record: CommandRecord) -> str:
    """Return the command as one line of JSON."""
    return _COMMAND.encode(record).decode()


def decode_command(line: bytes | str) -> CommandRecord:
    """Return the command of one line.

    Raises:
        Malformed: the line is not a command; the message names the invalid field.
    """
    try:
        return _COMMAND.decode(line)
    except Malformed as error:
        text = line.encode() if isinstance(line, str) else line
        try:
            older = decoded(OLD_COMMAND, text)
        except Malformed:
            raise error from None
        return _COMMAND.decode(json.dumps(command(older)))


def _decoded(encoding: Encoding[T], data: bytes, version: int, steps: Steps, schema: int, what: Text) -> T:
    """Return a record of any schema, upgraded to the current schema."""
    return encoding.decode(data if version == schema else upgraded(data, version, steps, schema, what))
