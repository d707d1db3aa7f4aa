"""The public list of planted causes: every case is readable, and grades are correct."""

from typing import Any

import pytest
from benches.faults.planted_cases import CASES, Grade, all_cases, read_case, score
from tests.stated import codes

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.model.quantities import PortRef
from iolab.messages.drop_reasons import DropReason
from iolab.messages.evidence import Evidence
from iolab.messages.warnings import TrialWarning
from iolab.results.verdict import Limit

NAMES = sorted(path.name for path in CASES.glob("*.yaml"))


def problems_of(text: str, name: str) -> str:
    """Return why an experiment is refused; empty: it is valid."""
    try:
        parse(text, name)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_planted_case_refers_only_to_existing_codes_machines_and_ports(name: str) -> None:
    """Check that its experiment is valid or refused as stated."""
    case = read_case(CASES / name)
    problems = problems_of(case.experiment, name)
    if problems:
        assert case.refused
        assert case.refused in problems
        return
    experiment = parse(case.experiment, name)
    setup = Resolver(experiment).setup(next(cells(experiment)))
    assert all(limit in {each.value for each in Limit} for limit in case.limits)
    assert case.warnings | case.without <= codes(TrialWarning).keys()
    assert case.seen <= codes(Evidence).keys() | codes(DropReason).keys()
    machines = setup.lab.machines
    ports = {str(end) for link in setup.lab.links.values() for end in link.ends}
    for act in case.acts:
        assert act.machine is None or act.machine in machines
    for probe in case.probes:
        assert {probe.at, probe.after} - {None, ""} <= ports
        assert bool(probe.at) != (probe.program in ("client", "server"))
    words = {*machines, *ports, *setup.lab.links, *(f"wire {link}" for link in setup.lab.links)}
    assert all(place in words or PortRef(place).machine in machines for place in case.places)


def trial(
    limit: str, place: str | None, *seen: dict[str, Any], doubt: str = "", **more: Any
) -> dict[str, Any]:
    """Return a trial as in `iolab show --json`."""
    stated = [{"code": "lost-at", "parameters": one, "text": ""} for one in seen]
    doubted = {"code": "place-unknown", "parameters": {}, "text": doubt} if doubt else None
    verdict = {
        "limit": limit,
        "place": place and {"text": place},
        "seen": stated,
        "text": "",
        "doubt": doubted,
    }
    return {"status": "ok", "reason": None, "cell": {}, "warnings": [], "verdict": verdict} | more


CASE = read_case(CASES / "tcp-tbf-next-hop.yaml")


def test_right_limit_at_the_wrong_place_is_graded_wrong_unless_doubtful() -> None:
    """Grade only a certain verdict as wrong."""
    assert score(CASE, [trial("shaper", "a.eth1")]).grade is Grade.NAMED
    assert score(CASE, [trial("shaper", "b.eth0")]).grade is Grade.WRONG
    assert score(CASE, [trial("shaper", "b.eth0", doubt="perhaps")]).grade is Grade.DOUBTFUL
    assert score(CASE, [trial("unexplained", None)]).grade is Grade.DOUBTFUL


def test_worst_trial_determines_the_grade_and_a_failed_trial_is_wrong() -> None:
    """Count a case as named if each of its trials is."""
    good, failed = trial("shaper", "a.eth1"), trial("shaper", "a.eth1", status="failed")
    assert score(CASE, [good, failed]).grade is Grade.WRONG
    assert score(CASE, []).grade is Grade.WRONG


def test_unjustified_warning_is_graded_wrong() -> None:
    """Use the case's list of warnings that nothing justifies."""
    marked = trial("shaper", "a.eth1", warnings=[{"code": "foreign-traffic"}])
    assert score(CASE, [marked]).grade is Grade.WRONG


@pytest.mark.parametrize(
    ("seen", "contradicts"),
    [
        (({"passed_bps": 839e3}, {"rate_bps": 512e3}), True),
        (({"passed_bps": 511e3}, {"rate_bps": 512e3}), False),
        (({"lost": 62934, "sent": 57432},), True),
        (({"clauses": [{"code": "x", "passed_bps": 9.0}, {"code": "y", "rate_bps": 1.0}]},), True),
        (({"clauses": [{"code": "x", "passed_bps": 9.0}]}, {"rate_bps": 1.0}), False),
    ],
)
def test_verdict_that_its_figures_contradict_is_detected(
    seen: tuple[dict[str, Any], ...], *, contradicts: bool
) -> None:
    """Compare figures of one flow with each other, never with those of a different flow."""
    assert bool(score(CASE, [trial("shaper", "a.eth1", *seen)]).contradictions) is contradicts


def test_names_of_planted_cases_begin_with_their_subject() -> None:
    """Allow the selection of cases by subject."""
    assert all("-" in case.name for case in all_cases())


def test_figure_outside_its_range_or_missing_is_graded_wrong() -> None:
    """Find the figure by name and by the dimensions that the case names."""
    case = read_case(CASES / "watch-trains-slow-line.yaml")
    about = {"direction": "a.eth0->b.eth0", "window_ns": 12_000}
    right = [
        {"name": "train_frames_p50", "value": 9, "dimensions": about},
        {"name": "train_interval_p50_ns", "value": 24.6e6, "dimensions": about},
    ]
    assert score(case, [trial("waiting", None, metrics=right)]).grade is Grade.NAMED
    trains_of_one = [right[0] | {"value": 1}, right[1]]
    assert "[1], not 9 to 9" in score(case, [trial("waiting", None, metrics=trains_of_one)]).text
    assert score(case, [trial("waiting", None, metrics=right[:1])]).grade is Grade.WRONG
