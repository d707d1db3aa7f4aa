"""Instruments of a measure: started and stopped once, and nothing left running after any failure."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, cast

import pytest
from tests.fake_agent.agent import FakeAgent
from tests.wording import in_words

from iolab.agent.client import Agent
from iolab.errors import TrialFailed
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.experiment.model.quantities import PortRef
from iolab.lab.topology import make_topology
from iolab.messages.warnings import CountersMissing
from iolab.results.metric import Metric, Metrics
from iolab.results.verdict import Limit, Verdict
from iolab.trial.instruments.instrument import Instrument, Part, Seen, measure_beside
from iolab.trial.instruments.samplers import Samplers, samplers_of
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, Measured, Readings

SECOND_NS = 1_000_000_000
LAB = Lab(
    {"near": Netns(kind="netns"), "far": Netns(kind="netns")},
    {"lan": Link(ends=(PortRef("near.eth0"), PortRef("far.eth0")))},
    {},
)
Conclude = Callable[[Measured, Readings], Measured]


def measured() -> Measured:
    """Return a measurement of one figure."""
    return Measured(Metrics([Metric("received_bps", "bit/s", 1e9)]), (), 1, (), {"schema": 1})


class Told:
    """An instrument that records its calls; `fails` names the failing call."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self._name, self._log, self._fails = name, log, fails

    def _note(self, call: str) -> None:
        self._log.append(f"{call} {self._name}")
        if call == self._fails:
            raise TrialFailed(f"{self._name} broke")

    def start(self) -> None:
        """See Instrument."""
        self._note("start")

    def stop(self) -> Seen:
        """See Instrument."""
        self._note("stop")
        metric = Metric(f"{self._name}_ratio", "ratio", 1.0)
        return Seen((metric,), (CountersMissing(place=self._name),), (), {"read": self._name})

    def abandon(self) -> None:
        """See Instrument."""
        self._log.append(f"abandon {self._name}")


def as_measured(evidence: Measured, _: Readings) -> Measured:
    """Return the measurement unchanged."""
    return evidence


def broken() -> Measured:
    """Fail like a measure."""
    raise TrialFailed("nothing arrived")


def test_instrument_metrics_and_warnings_are_added_to_those_of_the_measure() -> None:
    """Store readings under the instrument's name."""
    log: list[str] = []
    found = measure_beside({name: Told(name, log) for name in "ab"}, measured, as_measured)
    assert log == ["start a", "start b", "stop b", "stop a"]
    assert [metric.name for metric in found.metrics] == ["received_bps", "a_ratio", "b_ratio"]
    assert found.warnings == (CountersMissing(place="a"), CountersMissing(place="b"))
    assert found.raw == {"schema": 1, "instruments": {"a": {"read": "a"}, "b": {"read": "b"}}}


def test_files_of_measure_and_instruments_need_different_names() -> None:
    """Fail a trial with equal names."""

    class Writing(Told):
        def stop(self) -> Seen:
            return Seen(files={"a.bin": b"a"})

    own = replace(measured(), files={"own.bin": b"own"})
    found = measure_beside({"a": Writing("a", [])}, lambda: own, as_measured)
    assert found.files == {"own.bin": b"own", "a.bin": b"a"}
    taken = replace(measured(), files={"a.bin": b"own"})
    with pytest.raises(TrialFailed, match=r"files-twice: .*a\.bin"):
        measure_beside({"a": Writing("a", [])}, lambda: taken, as_measured)


@pytest.mark.parametrize(
    ("fails", "measure", "log"),
    [
        ("", broken, ["start a", "start b", "start c", "abandon c", "abandon b", "abandon a"]),
        ("start", measured, ["start a", "start b", "abandon b", "abandon a"]),
        ("stop", measured, ["start a", "start b", "start c", "stop c", "stop b", "abandon b", "abandon a"]),
    ],
    ids=["measure fails", "start fails", "stop fails"],
)
def test_every_started_instrument_is_ended_after_any_failure(
    fails: str, measure: Callable[[], Measured], log: list[str]
) -> None:
    """Raise the first error; end an instrument that failed to start, too."""
    told: list[str] = []
    with pytest.raises(TrialFailed, match="broke" if fails else "nothing arrived"):
        measure_beside(
            {"a": Told("a", told), "b": Told("b", told, fails), "c": Told("c", told)}, measure, as_measured
        )
    assert told == log


def test_exception_in_a_plugin_instrument_fails_the_trial_with_its_location() -> None:
    """Refuse two instruments with the same figure."""

    class Wrong(Told):
        def start(self) -> None:
            raise ZeroDivisionError("of nothing")

        def abandon(self) -> None:
            raise ZeroDivisionError

    log: list[str] = []
    both = {"a": Told("a", log), "wrong": Wrong("b", log)}
    with pytest.raises(Failed) as caught:
        measure_beside(both, measured, as_measured, packages={"wrong": "the package far 1.0"})
    told = in_words(caught.value.failure)
    whose = "the function start of wrong from the package far 1.0"
    seen = r" raised ZeroDivisionError at test_instruments.py:\d+: of nothing; fix, update or uninstall that package"
    assert re.fullmatch(whose + seen, told)
    assert log == ["start a", "abandon a"]
    with pytest.raises(TrialFailed, match=r"figures-twice: .*a_ratio"):
        measure_beside({"a": Told("a", log), "a#2": Told("a", log)}, measured, as_measured)


def test_exception_in_iolab_itself_is_reported_as_a_defect_of_iolab() -> None:
    """Blame no other package for the measure's function, its conclusion, or an instrument."""

    class Wrong(Told):
        def start(self) -> None:
            raise ZeroDivisionError("of nothing")

    def breaks(*_: object) -> NoReturn:
        raise KeyError("far")

    cases: tuple[tuple[dict[str, Instrument], Callable[[], Measured], Conclude, str], ...] = (
        ({"wrong": Wrong("wrong", [])}, measured, as_measured, "start of wrong"),
        ({}, breaks, as_measured, "measure of stream"),
        ({}, measured, breaks, "conclude of stream"),
    )
    for instruments, measure, conclude, function in cases:
        with pytest.raises(Failed) as caught:
            measure_beside(instruments, measure, conclude, Part("stream"), packages={})
        told = in_words(caught.value.failure)
        assert told.startswith(f"the function {function} raised ")
        assert told.endswith("this is a defect of iolab, please report it")


def test_instrument_that_returns_a_wrong_type_is_named() -> None:
    """Blame the package, not iolab."""

    class Wrong(Told):
        def stop(self) -> Seen:
            return cast("Seen", "a text")

    with pytest.raises(Failed) as caught:
        measure_beside({"b": Wrong("b", [])}, measured, as_measured, packages={"b": "the package far 1.0"})
    assert in_words(caught.value.failure).endswith(
        "the function returned str; allowed: Seen; fix, update or uninstall that package"
    )
    assert in_words(caught.value.failure).startswith(
        "the function stop of b from the package far 1.0 raised TypeError"
    )


def test_exception_in_a_plugin_measure_fails_the_trial_with_its_location() -> None:
    """Name kind, function and package; end the instruments."""
    log: list[str] = []

    def measure() -> Measured:
        raise KeyError("far")

    with pytest.raises(Failed) as caught:
        measure_beside({"a": Told("a", log)}, measure, as_measured, Part("ping", "the package far 1.0"))
    whose = "the function measure of ping from the package far 1.0"
    assert in_words(caught.value.failure).startswith(f"{whose} raised KeyError at test_instruments.py:")
    assert log == ["start a", "abandon a"]


def test_samplers_read_every_kernel_and_are_stopped_after_a_failure() -> None:
    """Read all kernels for the conclusion; accept a series of the same name afterwards."""
    agents = {"": Agent(FakeAgent()), "far": Agent(FakeAgent(), name="far")}
    told: list[Readings] = []

    def conclude(evidence: Measured, readings: Readings) -> Measured:
        told.append(readings)
        return replace(evidence, verdict=Verdict(Limit.RATE), warnings=(CountersMissing(place="a.eth0"),))

    found = measure_beside(
        {"samplers": Samplers(agents, {"": [None], "far": [None]}, make_topology(LAB), SECOND_NS)},
        measured,
        conclude,
    )
    assert [set(readings) for readings in told] == [{"", "far"}]
    assert found.verdict is not None
    assert found.verdict.limit is Limit.RATE
    assert [warning.code for warning in found.warnings] == ["counters-missing"]
    for _ in range(2):
        with pytest.raises(TrialFailed):
            measure_beside(
                {"samplers": Samplers(agents, {"": [None], "far": [None]}, make_topology(LAB), SECOND_NS)},
                broken,
                as_measured,
            )
    for agent in agents.values():
        with pytest.raises(Exception, match="no series"):
            agent.call("sample.stop", {"series": "trial 1000 ms"})


def test_samplers_cover_every_namespace_with_a_port() -> None:
    """Include namespaces outside the measure."""
    asked: list[str] = []

    class Listening(FakeAgent):
        def send(self, line: str) -> None:
            asked.append(line)
            super().send(line)

    samplers_of(Site(Agent(Listening()), LAB, make_topology(LAB)), SECOND_NS).start()
    assert '"netns":["iolab-near","iolab-far"]' in asked[-1]


def test_readings_dropped_by_an_agent_give_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mention it, because series and verdict lack the beginning of the trial."""
    agent = Agent(FakeAgent())
    samplers = Samplers({"": agent}, {"": [None]}, make_topology(LAB), SECOND_NS)
    samplers.start()
    monkeypatch.setattr(agent, "call", lambda *_: {"dropped": 7, "readings": []})
    (warning,) = samplers.stop().warnings
    assert (warning.code, warning.model_dump()["dropped"]) == ("readings-dropped", 7)
