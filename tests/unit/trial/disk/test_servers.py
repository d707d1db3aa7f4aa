"""Servers behind a disk are asked by what each of them is, and a program's failure is put down to what they answer."""

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
"""What was run on the agent in memory."""
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
    """Return a lab on an agent in memory; `bad`: the peer that does not answer, and how.

    `backing`: the file of the loop device; None: the one that it should be; empty: nothing.
    """
    file = "/run/iolab-v.door" if via == "user" else "/var/tmp/iolab-v"
    asked: list[str] = []

    def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
        if argv[1:] == ("disk",):
            # The agent in memory does not pass the input on: questions come in the order of the servers.
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
    """Return why a program failed with this output."""
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
def test_each_protocol_has_its_target_and_its_ping(
    export: str, kinds: tuple[str, str], target: object, has_process: bool
) -> None:
    """Kernels have no process that could be stopped; guests are servers of their own."""
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


def test_a_local_disk_has_no_server() -> None:
    """Its file is the kernel's own."""
    site = site_of("local", "")
    assert servers_of(site, "pc2", site.lab.machines["pc2"].disks[0]) == ()


def test_every_condition_is_stated() -> None:
    """One that answers is well."""
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


def test_only_the_server_that_does_not_answer_is_found() -> None:
    """The storage daemon is well, though its target is not."""
    site = site_of("user", "iscsi", bad=("iscsi", "silent"))
    (found,) = ask(site, servers_of(site, "pc2", site.lab.machines["pc2"].disks[0]), 100)
    assert found.server.about == IscsiTarget(volume="v", machine="pc3", program="tgtd")
    assert found.condition == NoReply(ping="iSCSI login", waited_ns=100_000_000)


def test_a_guest_whose_agent_is_gone_does_not_answer() -> None:
    """Its hypervisor has ended, and the channel with it: that is no reply to a ping."""
    site = site_of("kernel", "nvme-tcp", kinds=("vm", "vm"))
    transport = FakeAgent()
    gone = Agent(transport)
    transport.kill()
    site = replace(site, agents={**site.agents, "pc3": gone}, guests={"pc3": GuestPlace("", "vm:pc3")})
    first = ask(site, servers_of(site, "pc2", site.lab.machines["pc2"].disks[0]), 100)[0]
    assert (first.server.about, first.condition) == (GuestKernel(machine="pc3"), ProcessGone())


def test_a_server_that_does_not_answer_is_the_cause_whatever_a_program_reports() -> None:
    """With the program's own words."""
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
def test_what_a_disk_shows_is_the_cause(backing: str | None, free: str, output: str, expected: str) -> None:
    """The loop device, then what the program read, then the store."""
    found = cause(site_of("local", "", backing=backing, free=free), output)
    assert isinstance(found, Failure)
    assert found.code == expected


def test_a_disk_that_is_well_is_no_cause() -> None:
    """The program has failed by itself."""
    assert cause(site_of("local", ""), "fio failed while measuring: fio: unrecognized option") is None


def test_guests_that_wait_for_a_disk_are_powered_off_and_so_is_the_one_that_hangs() -> None:
    """The one with the disk, and the one whose kernel is the target; another guest goes on."""
    site = site_of("kernel", "nvme-tcp", kinds=("vm", "vm"))
    site = replace(site, guests={name: GuestPlace("", f"vm:{name}") for name in ("pc2", "pc3", "pc4")})
    for place in site.guests.values():
        site.agent.start(place.process, ("qemu",))
    servers = servers_of(site, "pc2", site.lab.machines["pc2"].disks[0])
    silent = next(one for one in servers if one.about == GuestKernel(machine="pc3"))
    end(site, "pc2", servers, silent)
    for name in ("pc2", "pc3"):
        site.agent.start(f"vm:{name}", ("qemu",))  # the id is free: the process was ended
    with pytest.raises(Refused):
        site.agent.start("vm:pc4", ("qemu",))


def test_the_processes_behind_a_disk_are_killed_by_their_pid_files() -> None:
    """Target and storage daemon, each known by a word of its own."""
    site = site_of("user", "iscsi")
    servers = servers_of(site, "pc2", site.lab.machines["pc2"].disks[0])
    end(site, "pc2", servers, servers[0])
    asked = [argv[3:] for argv, _ in RAN if argv[:2] == ("sh", "-c")]
    assert asked == [
        ("/run/iolab-v.tgt.pid", "TGT_IPC_SOCKET=/run/iolab-v.tgt"),
        ("/run/iolab-v.door.pid", "/run/iolab-v.door.pid"),
    ]
