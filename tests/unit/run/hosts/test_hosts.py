"""Which other hosts an experiment has: each machine on one, each host once."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.run.hosts.hosts import hosts_of


def experiment(machines: str, factors: str = "") -> Experiment:
    """Return an experiment on these machines."""
    links = "links: {lan: {ends: [a.eth1, b.eth1], cable: true}}"
    text = f"lab:\n  machines: {machines}\n  {links}\nmeasure:\n  tcp: {{kind: stream, from: a, to: b}}\n{factors}"
    return parse(text, "lab.yaml")


def test_machines_that_are_other_hosts_are_found() -> None:
    """This computer and namespaces are none; a factor that touches a machine otherwise does not matter."""
    machines = "{a: {kind: host, ssh: root@pc6}, b: {kind: host}, c: {kind: netns, on: a}}"
    factors = "factors:\n  machines.a.settings: [{net.ipv4.tcp_sack: 0}, {net.ipv4.tcp_sack: 1}]\n"
    assert hosts_of(experiment(machines, factors)) == {"a": "root@pc6"}


def test_a_machine_that_moves_between_hosts_is_refused() -> None:
    """Both places are named."""
    found = experiment(
        "{a: {kind: host, ssh: pc6}, b: {kind: host}}", "factors:\n  machines.a.ssh: [pc6, pc7]\n"
    )
    with pytest.raises(InputError, match=r"machines.a.ssh.*saw pc6, pc7.*one host for each machine"):
        hosts_of(found)


def test_two_machines_on_one_host_are_refused() -> None:
    """One agent works on a host at a time; namespaces on it are the way."""
    with pytest.raises(InputError, match=r"pc6, which is a already.*netns `on: a`"):
        hosts_of(experiment("{a: {kind: host, ssh: pc6}, b: {kind: host, ssh: pc6}}"))
