"""Read cases of planted causes and score iolab's conclusions on them, without running anything."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from iolab.units import parse_nanoseconds

CASES = Path(__file__).parent
"""Folder of the cases."""
SILENT = frozenset({"unexplained", "host"})
"""Limits that name no cause inside the lab."""
AT_MOST = (
    ("passed_bps", "rate_bps", 1.05),
    ("passed_bps", "line_bps", 1.05),
    ("lost", "sent", 1.0),
    ("lost", "offered", 1.0),
    ("lost_frames", "offered_frames", 1.0),
    ("dropped", "lost", 1.0),
    ("frames", "lost_frames", 1.0),
    ("used_bytes", "capacity_bytes", 1.02),
)
"""Pairs of verdict parameters with a factor: if the first parameter exceeds the second times the factor, the verdict
contradicts itself."""


class Grade(StrEnum):
    """Grade of a verdict."""

    NAMED = "named"
    """The right limit at the right place."""
    DOUBTFUL = "doubtful"
    """No cause, or a cause that is marked as uncertain."""
    WRONG = "WRONG"
    """A wrong cause that is stated as certain."""


@dataclass(frozen=True, slots=True)
class Act:
    """An action during the trial."""

    at_ns: int
    """Time after the start of the measured program [ns]."""
    argv: tuple[str, ...]
    """Command; {client} and {server} are the process IDs of the programs."""
    machine: str | None = None
    """Namespace in which it runs; None: the host itself."""


PROBED = (
    "rate_bps",
    "short_bps",
    "loss_ratio",
    "silent_ns",
    "flight_bytes",
    "run_ratio",
    "wait_ratio",
    "stopped_ns",
)
"""Figures of the independent probe: of a port, between two ports (loss_ratio), or of a program (the last three)."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Expected result of an independent probe of kernel timestamps and times."""

    figure: str
    """One of `PROBED`."""
    low: float
    """Smallest value that agrees with the cause, in the figure's unit."""
    high: float
    """Largest value that agrees with the cause."""
    at: str = ""
    """Port whose received packets are counted (machine.port); empty: a program is observed."""
    after: str | None = None
    """Earlier port on the path; the loss between the two is checked."""
    program: str = ""
    """client or server, if threads are observed."""


@dataclass(frozen=True, slots=True)
class FigureRange:
    """Values of a metric that agree with the cause."""

    metric: str
    """Metric name."""
    about: Mapping[str, Any]
    """Required dimensions; others are ignored."""
    low: float
    """Minimum, in the metric's unit."""
    high: float
    """Maximum."""


@dataclass(frozen=True, slots=True)
class Case:
    """A lab with a planted cause, and the truth about it."""

    name: str
    """File name without its suffix."""
    experiment: str
    """Experiment file, as a user would write it."""
    cause: str
    """Cause, in words."""
    limits: frozenset[str]
    """Right limits: codes of `Limit`. Empty: only warnings are judged."""
    places: frozenset[str]
    """Right places, as a report names them: machine.port, a machine, a link. Empty: any place."""
    doubt: bool = False
    """Whether a doubtful verdict is right, because no data that iolab can read decides the case."""
    warnings: frozenset[str] = frozenset()
    """Codes of warnings that every trial must have."""
    without: frozenset[str] = frozenset()
    """Codes of warnings that no trial may have."""
    seen: frozenset[str] = frozenset()
    """Codes of clauses that the verdict must contain."""
    figures: tuple[FigureRange, ...] = ()
    """Ranges of metrics that every trial must have."""
    refused: str = ""
    """Part of the reason for which the case must be refused, or its trials must be invalid; empty: the case must be
    measured."""
    acts: tuple[Act, ...] = ()
    """Actions during the trial."""
    hogs: int = 0
    """Number of programs outside the lab that use a CPU all the time during the trial."""
    probes: tuple[Probe, ...] = ()
    """Expected results of the independent probe."""
    cells: Mapping[str, "Truth"] = field(default_factory=dict)
    """Truth of single cells, by a label of the cell; other cells have the truth of the case."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The truth about one cell."""

    limits: frozenset[str]
    """As in the case."""
    places: frozenset[str]
    """As in the case."""


@dataclass(frozen=True, slots=True)
class Score:
    """Grade of the conclusions on one case."""

    grade: Grade
    """Grade of its worst trial."""
    text: str
    """Conclusion."""
    contradictions: tuple[str, ...] = ()
    """Statements of one verdict that contradict each other."""


def read_case(path: Path) -> Case:
    """Return the case of a file: its truth, then `---`, then its experiment.

    Raises:
        ValueError: the file is not such a pair, or a key is unknown.
    """
    head, _, experiment = path.read_text().partition("\n---\n")
    truth: Any = YAML(typ="safe", pure=True).load(head)
    if not isinstance(truth, dict) or "cause" not in truth or not experiment.strip():
        raise ValueError(f"{path}: expected the truth with `cause`, a line `---`, and an experiment")
    known = {
        "cause", "limit", "place", "doubt", "warnings", "without", "seen", "figures", "refused", "during", "hogs",
        "probe", "cells",
    }  # fmt: skip
    if unknown := truth.keys() - known:
        raise ValueError(f"{path}: unknown keys {sorted(unknown)}; known are {sorted(known)}")
    return Case(
        name=path.stem,
        experiment=experiment,
        cause=str(truth["cause"]),
        limits=_names(truth.get("limit")),
        places=_names(truth.get("place")),
        doubt=bool(truth.get("doubt", False)),
        warnings=_names(truth.get("warnings")),
        without=_names(truth.get("without")),
        seen=_names(truth.get("seen")),
        figures=tuple(_figure(one) for one in truth.get("figures", ())),
        refused=str(truth.get("refused", "")),
        acts=tuple(_act(one) for one in truth.get("during", ())),
        hogs=int(truth.get("hogs", 0)),
        probes=tuple(_probe(one) for one in truth.get("probe", ())),
        cells={
            str(label): Truth(_names(own.get("limit")), _names(own.get("place")))
            for label, own in truth.get("cells", {}).items()
        },
    )


def all_cases(words: Sequence[str] = ()) -> Iterator[Case]:
    """Yield the cases whose names contain one of the words; without words, all."""
    for path in sorted(CASES.glob("*.yaml")):
        if not words or any(word in path.stem for word in words):
            yield read_case(path)


def _names(value: Any) -> frozenset[str]:
    if value is None:
        return frozenset()
    return frozenset({value} if isinstance(value, str) else value)


def _act(written: Mapping[str, Any]) -> Act:
    argv = tuple(map(str, written["run"]))
    return Act(parse_nanoseconds(str(written["at"])), argv, written.get("on"))


def _probe(written: Mapping[str, Any]) -> Probe:
    (figure,) = written.keys() & set(PROBED)
    low, high = map(float, written[figure])
    return Probe(
        figure, low, high, str(written.get("at", "")), written.get("after"), str(written.get("program", ""))
    )


def _figure(written: Mapping[str, Any]) -> FigureRange:
    low, high = written["range"]
    about = {name: value for name, value in written.items() if name not in ("metric", "range")}
    return FigureRange(str(written["metric"]), about, float(low), float(high))


# Scores -----------------------------------------------------------------------------------------------------


def score(case: Case, trials: Sequence[Mapping[str, Any]], written: str = "") -> Score:
    """Return the grade of the conclusions on a case's trials, as `iolab show --json` prints them.

    `written` is the output of the run, for a case that is refused as a whole.
    """
    if not trials and case.refused and case.refused in written:
        return Score(Grade.NAMED, f"refused: {case.refused}")
    if not trials:
        return Score(Grade.WRONG, f"no trial: {written.strip()}")
    scores = [_score(case, trial) for trial in trials]
    order = list(Grade)
    worst = max(scores, key=lambda one: order.index(one.grade))
    return Score(worst.grade, worst.text, tuple(text for one in scores for text in one.contradictions))


def _score(case: Case, trial: Mapping[str, Any]) -> Score:
    if trial["status"] != "ok":
        reason = f"{trial['status']}: {(trial['reason'] or {}).get('text')}"
        return Score(Grade.NAMED if case.refused and case.refused in reason else Grade.WRONG, reason)
    if case.refused:
        return Score(Grade.WRONG, "measured, and it should have been refused")
    verdict = trial["verdict"] or {
        "limit": "none",
        "place": None,
        "text": "no verdict",
        "seen": [],
        "doubt": None,
    }
    truth = next(
        (case.cells[label] for label in trial["cell"].values() if label in case.cells),
        Truth(case.limits, case.places),
    )
    marks = [one["code"] for one in trial["warnings"]]
    place = place_text(verdict["place"])
    doubt = f" ({verdict['doubt']['text']})" if verdict["doubt"] else ""
    text = f"{verdict['limit']} {place}: {verdict['text']}{doubt}" + "".join(f"; {mark}" for mark in marks)
    contradictions = tuple(contradictions_of(verdict))
    grade = _grade(case, truth, verdict, place)
    missing, false = case.warnings - set(marks), case.without & set(marks)
    if missing or false:
        text += f" [missing marks: {sorted(missing)}, false marks: {sorted(false)}]"
        grade = Grade.WRONG
    if case.figures and (outside := tuple(_outside(case.figures, trial["metrics"]))):
        text += f" [{'; '.join(outside)}]"
        grade = Grade.WRONG
    return Score(grade, text, contradictions)


def _outside(figures: Sequence[FigureRange], metrics: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield figures that are missing or out of range."""
    for wanted in figures:
        values = [
            each["value"]
            for each in metrics
            if each["name"] == wanted.metric and wanted.about.items() <= each["dimensions"].items()
        ]
        wrong = [value for value in values if not wanted.low <= value <= wanted.high]
        if wrong or not values:
            yield f"{wanted.metric} is {wrong or 'absent'}, not {wanted.low:g} to {wanted.high:g}"


def _grade(case: Case, truth: Truth, verdict: Mapping[str, Any], place: str) -> Grade:
    if not truth.limits:
        return Grade.NAMED
    codes = set(_codes(verdict["seen"]))
    right = verdict["limit"] in truth.limits and (not truth.places or place in truth.places)
    uncertain = bool(verdict["doubt"]) or verdict["limit"] in SILENT - truth.limits
    if right and case.seen <= codes and (not verdict["doubt"] or case.doubt):
        return Grade.NAMED
    return Grade.DOUBTFUL if uncertain else Grade.WRONG


def place_text(place: Mapping[str, Any] | str | None) -> str:
    """Return a place in words."""
    if place is None:
        return "nowhere"
    return place if isinstance(place, str) else str(place["text"])


def contradictions_of(verdict: Mapping[str, Any]) -> Iterator[str]:
    """Yield impossible statements: more passed than possible, more dropped than lost."""
    yield from _contradicting(verdict["seen"])
    if verdict["doubt"]:
        yield from _contradicting([verdict["doubt"]])


def _contradicting(stated: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield contradictions between statements about the same subject."""
    known: dict[str, Any] = {}
    for one in stated:
        parameters = one.get("parameters") or {name: value for name, value in one.items() if name != "code"}
        for name, value in parameters.items():
            if isinstance(value, list):
                yield from _contradicting([each for each in value if isinstance(each, Mapping)])
            elif isinstance(value, int | float):
                known.setdefault(name, value)
    for part, whole, factor in AT_MOST:
        if part in known and whole in known and known[part] > known[whole] * factor:
            yield f"{part} {known[part]:g} > {whole} {known[whole]:g}"


def _codes(stated: Any) -> Iterator[str]:
    """Yield the codes of statements, including nested ones."""
    if isinstance(stated, Mapping):
        if "code" in stated:
            yield stated["code"]
        for value in stated.values():
            yield from _codes(value)
    elif isinstance(stated, list | tuple):
        for value in stated:
            yield from _codes(value)
