"""Guest images are built when a run needs them, and only if nothing else is missing."""

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
    """Return a plan in which a cell cannot run for each reason."""
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
def test_image_is_not_built_for_a_cell_with_other_unmet_requirements(
    plan: Plan, flavours: tuple[str, ...]
) -> None:
    """Build no image for a cell with another unmet requirement, and no QEMU for a remote host."""
    assert to_build(plan) == flavours


NAMING_NOTHING = parse(str(starter("Small")), "small.yaml")


class Builder:
    """A stand-in for the image builder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.built: list[str] = []
        monkeypatch.setattr(module, "build", lambda flavour, *_: self.built.append(flavour))

    def decide(self, _: Facts) -> Plan:
        """Return the plan of a host with the images built so far."""
        return lacking() if "linux" in self.built else lacking(LINUX)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Provide a builder that records the built images."""
    return Builder(monkeypatch)


def test_missing_image_is_built_before_planning_continues(
    builder: Builder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print the image and the reason."""
    plan, _ = planned(Agents(Agent(FakeAgent())), NAMING_NOTHING, builder.decide, no_build=False)
    assert builder.built == ["linux"]
    assert plan.unsupported == ()
    assert "building linux, which guests of this experiment need" in capsys.readouterr().err


def test_option_no_build_prevents_building_a_missing_image(builder: Builder) -> None:
    """Report the missing image in the plan."""
    plan, _ = planned(Agents(Agent(FakeAgent())), NAMING_NOTHING, builder.decide, no_build=True)
    assert builder.built == []
    assert [each.reason for each in plan.unsupported] == [LINUX]


def test_missing_packages_of_a_host_are_named_in_one_install_command() -> None:
    """List each package once, and no requirement that a package does not meet."""
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
