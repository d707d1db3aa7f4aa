"""Servers of a disk are checked by kind, and a program's failure is attributed by their answers."""

import json
from dataclasses import replace

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome

from iolab.agent.client import Agent, Refused
from iolab.clock import VirtualClock
from iolab.experiment import Resolver, cells, parse
from iolab.lab.topology import make_topology
from iolab.messages.disks import (
    DiskServerFailed,
    GuestKernel,
    IscsiTarget,
    NoReply,
    ProcessGone,
    ProcessStopped,
    VolumeServer,
    WrongReply,
)
from iolab.messages.statement import Failure
from iolab.trial.disk.causes import cause_of
from iolab.trial.disk.own import Answer
from iolab.trial.disk.servers import ask, condition_of, end, servers_of
from iolab.trial.lab_access import GuestPlace, Site
from iolab.trial.measurement import LabUnusable

LAB = """
title: Servers
lab:
  machines: {pc2: {kind: %s, disks: [{volume: v, via: %s}]}, pc3: {kind: %s}}
  links: {san: {ends: [pc2.eth0, pc3.eth0]}}
  volumes: {v: {on: pc3, size: 64M%s}}
measure: {it: {kind: disk, program: fio, on: pc2}}
"""
RAN: list[tuple[tuple[str, ...], str | None]] = []
"""Commands that were run on the fake agent."""
IO_ERROR = (
    "fio, measuring: fio: io_u error on file /dev/iolab-v: Input/output error: write offset=4096, buflen=4096"
)
VERIFY = "fio, measuring: verify: bad magic header 0, wanted acca at file /dev/iolab-v offset 0, length 4096"


def site_of(
    via: str,
    export: str,
    *,
    bad: tuple[str, str] | None = None,
    backing: str | None = None,
    free: str = "900000 4096",
    kinds: tuple[str, str] = ("netns", "netns"),
) -> Site:
    """Return a lab on a fake agent; `bad`: the unresponsive peer, and its condition.

    `backing`: the file of the loop device; None: the right file; empty: no file.
    """
    file = "/run/iolab-v.door" if via == "user" else "/var/tmp/iolab-v"
    asked: list[str] = []

    def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
        if argv[1:] == ("disk",):
            # The fake agent does not pass the input on, so answers are assigned to the requests in the order of the
            # servers.
            kind = asked.pop(0)
            condition = bad[1] if bad is not None and bad[0] == kind else "answers"
            return Outcome(stdout=json.dumps({"phases": [], "answer": {"condition": condition, "pid": 7}}))
        if argv[0] == "stat":
            return Outcome(stdout=free)
        if backing == "":
            return Outcome(exit_status=1)
        return Outcome(stdout=file if backing is None else backing)

    RAN.clear()
    agent = Agent(FakeAgent(FakeHost(ran=RAN), programs=programs, clock=VirtualClock(now=1)))
    text = LAB % (kinds[0], via, kinds[1], f", export: {export}" if export else "")
    setup = Resolver(experiment := parse(text, "test")).setup(next(cells(experiment)))
    site = Site(agent=agent, lab=setup.lab, topology=make_topology(setup.lab))
    for server in servers_of(site, "pc2", site.lab.machines["pc2"].disks[0]):
        asked += ["process"] if server.process is not None else []
        asked += [str(server.connection.peer["kind"])] if server.connection is not None else []
    return site


def cause(site: Site, output: str) -> object:
    """Return the cause of a program's failure with this output."""
    found = cause_of(site, "pc2", site.lab.machines["pc2"].disks[0], "fio", output, 100)
    assert found is None or isinstance(found, LabUnusable)
    return None if found is None else found.failure


@pytest.mark.parametrize(
    ("export", "kinds", "target", "has_process"),
    [
        ("iscsi", ("netns", "netns"), IscsiTarget(volume="v", machine="pc3", program="tgtd"), True),
        ("iscsi", ("vm", "vm"), IscsiTarget(volume="v", machine="pc3", program="LIO"), False),
        ("nvme-tcp", ("vm", "vm"), VolumeServer(code="nvme-target", volume="v", machine="pc3"), False),
        ("nbd", ("vm", "netns"), VolumeServer(code="nbd-server", volume="v", machine="pc3"), True),
    ],
)
def test_each_protocol_has_its_target_and_a_check_of_that_target(
    export: str, kinds: tuple[str, str], target: object, has_process: bool
) -> None:
    """Ping no kernel as a process; treat guests as separate servers."""
    via = "user" if kinds[0] == "netns" else "kernel"
    site = site_of(via, export, kinds=kinds)
    servers = servers_of(site, "pc2", site.lab.machines["pc2"].disks[0])
    (found,) = (one for one in servers if one.about == target)
    assert found.connection is not None
    assert found.connection.peer["kind"] == export
    assert (found.process is not None) is has_process
    guests = [one.about for one in servers if one.about.code == "guest-kernel"]
    assert len(guests) == kinds.count("vm")
    assert (servers[-1].about == VolumeServer(code="storage-daemon", volume="v", machine="pc2")) is (
        via == "user"
    )


def test_local_disk_has_no_server() -> None:
    """Exclude the kernel's own file."""
    site = site_of("local", "")
    assert servers_of(site, "pc2", site.lab.machines["pc2"].disks[0]) == ()


def test_every_server_condition_is_decoded() -> None:
    """Return None for a healthy one."""
    conditions = {
        "stopped": ProcessStopped(pid=7),
        "gone": ProcessGone(),
        "refused": WrongReply(code="connection-refused", ping="NBD handshake"),
        "silent": NoReply(ping="NBD handshake", waited_ns=3_000_000_000),
        "foreign": WrongReply(code="other-protocol", ping="NBD handshake"),
        "answers": None,
    }
    for word, stated in conditions.items():
        answer = Answer.model_validate({"condition": word, "pid": 7})
        assert condition_of(answer, "NBD handshake", 3_000) == stated


def test_only_the_unresponsive_server_is_reported() -> None:
    """Accept the storage daemon, although its target hangs."""
    site = site_of("user", "iscsi", bad=("iscsi", "silent"))
    (found,) = ask(site, servers_of(site, "pc2", site.lab.machines["pc2"].disks[0]), 100)
    assert found.server.about == IscsiTarget(volume="v", machine="pc3", program="tgtd")
    assert found.condition == NoReply(ping="iSCSI login", waited_ns=100_000_000)


def test_guest_without_an_agent_counts_as_unresponsive() -> None:
    """Detect the end of its hypervisor."""
    site = site_of("kernel", "nvme-tcp", kinds=("vm", "vm"))
    transport = FakeAgent()
    gone = Agent(transport)
    transport.kill()
    site = replace(site, agents={**site.agents, "pc3": gone}, guests={"pc3": GuestPlace("", "vm:pc3")})
    first = ask(site, servers_of(site, "pc2", site.lab.machines["pc2"].disks[0]), 100)[0]
    assert (first.server.about, first.condition) == (GuestKernel(machine="pc3"), ProcessGone())


def test_unresponsive_server_is_the_cause_whatever_the_program_reports() -> None:
    """Quote the program's message."""
    failure = cause(site_of("user", "iscsi", bad=("qmp", "refused")), IO_ERROR)
    assert isinstance(failure, DiskServerFailed)
    assert (failure.server, failure.output) == (
        VolumeServer(code="storage-daemon", volume="v", machine="pc2"),
        IO_ERROR,
    )


@pytest.mark.parametrize(
    ("backing", "free", "output", "expected"),
    [
        ("", "9 4096", IO_ERROR, "disk-detached"),
        ("/srv/precious", "9 4096", IO_ERROR, "disk-reattached"),
        ("/var/tmp/iolab-v (deleted)", "900000 4096", "fio printed no JSON", "disk-reattached"),
        (None, "9 4096", IO_ERROR, "disk-store-full"),
        (None, "900000 4096", IO_ERROR, "disk-io-failed"),
        (None, "9 4096", VERIFY, "disk-data-wrong"),
    ],
)
def test_disk_state_determines_the_cause_of_an_io_error(
    backing: str | None, free: str, output: str, expected: str
) -> None:
    """Check the loop device, then the program's output, then the store."""
    found = cause(site_of("local", "", backing=backing, free=free), output)
    assert isinstance(found, Failure)
    assert found.code == expected


def test_healthy_disk_is_not_the_cause_of_a_program_failure() -> None:
    """Attribute the failure to the program itself."""
    assert cause(site_of("local", ""), "fio failed while measuring: fio: unrecognized option") is None


def test_guests_that_use_or_serve_a_hanging_disk_are_powered_off() -> None:
    """Keep other guests running."""
    site = site_of("kernel", "nvme-tcp", kinds=("vm", "vm"))
    site = replace(site, guests={name: GuestPlace("", f"vm:{name}") for name in ("pc2", "pc3", "pc4")})
    for place in site.guests.values():
        site.agent.start(place.process, ("qemu",))
    servers = servers_of(site, "pc2", site.lab.machines["pc2"].disks[0])
    silent = next(one for one in servers if one.about == GuestKernel(machine="pc3"))
    end(site, "pc2", servers, silent)
    for name in ("pc2", "pc3"):
        site.agent.start(f"vm:{name}", ("qemu",))  # the ID is free: the process was ended
    with pytest.raises(Refused):
        site.agent.start("vm:pc4", ("qemu",))


def test_server_processes_of_a_disk_are_killed_by_their_pid_files() -> None:
    """Identify target and storage daemon by different words."""
    site = site_of("user", "iscsi")
    servers = servers_of(site, "pc2", site.lab.machines["pc2"].disks[0])
    end(site, "pc2", servers, servers[0])
    asked = [argv[3:] for argv, _ in RAN if argv[:2] == ("sh", "-c")]
    assert asked == [
        ("/run/iolab-v.tgt.pid", "TGT_IPC_SOCKET=/run/iolab-v.tgt"),
        ("/run/iolab-v.door.pid", "/run/iolab-v.door.pid"),
    ]
