"""What guests are started from is built when a run needs it, and only where nothing else is lacking."""

from dataclasses import replace

import pytest
from tests.fake_agent.agent import FakeAgent
from tests.unit.store.examples import PLAN

from iolab.agent.client import Agent
from iolab.cli import planned as module
from iolab.cli.plan import install_lines
from iolab.cli.planned import planned, to_build
from iolab.cli.runs import leave_out
from iolab.errors import UnsupportedError
from iolab.experiment import parse, starter
from iolab.lab.hosts.facts import Facts
from iolab.messages.places import ForMachine, OtherComputer, ThisComputer
from iolab.messages.unmet import (
    ImageAbsent,
    PlainHostLack,
    ProgramAbsent,
    ProgramLack,
    SeveralLacks,
    UnmetRequirement,
)
from iolab.plan.types import Plan, Unsupported
from iolab.run.agents import Agents


def lacking(*reasons: UnmetRequirement) -> Plan:
    """Return a plan of which a cell cannot run for each reason."""
    return replace(PLAN, unsupported=tuple(Unsupported("tcp", {}, reason) for reason in reasons))


LINUX, NESTED = ImageAbsent(image="linux"), ImageAbsent(image="nested")
OLD_HERE = PlainHostLack(code="newer-qemu-absent", purpose=ForMachine(machine="dut"), host=ThisComputer())
OLD_THERE = PlainHostLack(
    code="newer-qemu-absent", purpose=ForMachine(machine="dut"), host=OtherComputer(machine="pc6")
)


@pytest.mark.parametrize(
    ("plan", "flavours"),
    [
        (lacking(), ()),
        (lacking(LINUX, LINUX, SeveralLacks(lacks=(LINUX, NESTED))), ("linux", "nested")),
        (lacking(OLD_HERE), ("qemu",)),
        (lacking(OLD_THERE), ()),
        (lacking(SeveralLacks(lacks=(LINUX, OLD_THERE))), ()),
    ],
)
def test_what_building_does_not_help_is_not_built(plan: Plan, flavours: tuple[str, ...]) -> None:
    """An image is not built for a cell that lacks something else too, nor a QEMU for another host."""
    assert to_build(plan) == flavours


NAMING_NOTHING = parse(starter("Small"), "small.yaml")


class Builder:
    """Stands for what builds images."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.built: list[str] = []
        monkeypatch.setattr(module, "build", lambda flavour, *_: self.built.append(flavour))

    def decide(self, _: Facts) -> Plan:
        """Return the plan of a host with the images built so far."""
        return lacking() if "linux" in self.built else lacking(LINUX)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Return what remembers the images that were built."""
    return Builder(monkeypatch)


def test_an_absent_image_is_built_and_planning_is_done_with_it(
    builder: Builder, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user reads what is being built and why."""
    plan, _ = planned(Agents(Agent(FakeAgent())), NAMING_NOTHING, builder.decide, no_build=False)
    assert builder.built == ["linux"]
    assert plan.unsupported == ()
    assert "building linux, which guests of this experiment need" in capsys.readouterr().err


def test_nothing_is_built_where_the_user_refuses(builder: Builder) -> None:
    """The plan says what is lacking."""
    plan, _ = planned(Agents(Agent(FakeAgent())), NAMING_NOTHING, builder.decide, no_build=True)
    assert builder.built == []
    assert [each.reason for each in plan.unsupported] == [LINUX]


def test_missing_packages_are_named_in_one_command_per_computer() -> None:
    """Whoever copies the line has them all, each once; what no package helps is not in it."""
    here, there = ThisComputer(), OtherComputer(machine="pc6")
    part = ForMachine(machine="dut")
    plan = lacking(
        ProgramAbsent(host=here, program="tgtd", package="tgt"),
        SeveralLacks(lacks=(LINUX, ProgramAbsent(host=here, program="iperf3", package="iperf3"))),
        ProgramAbsent(host=here, program="tgtd", package="tgt"),
        ProgramLack(code="switch-absent", purpose=part, host=here, program="dpdk-testpmd"),
        PlainHostLack(code="iscsi-driver-absent", purpose=part, host=there),
    )
    assert [*map(str, install_lines(plan))] == [
        "  to install the missing packages on this host: sudo apt-get install dpdk-dev iperf3 tgt",
        "  to install the missing packages on pc6: sudo apt-get install qemu-block-extra",
    ]
    with pytest.raises(UnsupportedError, match="sudo apt-get install dpdk-dev iperf3 tgt"):
        leave_out(plan, False, None)
    assert [*map(str, install_lines(lacking(LINUX)))] == []
