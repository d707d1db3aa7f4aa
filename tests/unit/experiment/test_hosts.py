"""Host lists become machines: ssh aliases, both forms of Ansible inventories, and names that must change."""

from pathlib import Path

import pytest

from iolab.cli.main import run
from iolab.errors import ExitCode, InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.hosts import ListedHost, machines_block, read_inventory, read_ssh_config, site_block
from iolab.experiment.model.machines import Host

SSH_CONFIG = """
# the lab
Include extra
Host pc6 pc6.lab
    HostName 192.0.2.6   # first floor
    User root
host = pc7
  hostname="192.0.2.7"
Host *.example.org !bad pc?
  HostName 192.0.2.9
Host bare
  User root
Match host pc8
  HostName 192.0.2.8
"""
INI = """
pc1 ansible_host=192.0.2.1 ansible_user=root
localhost ansible_connection=local

[guests]  ; virtual machines
vm[08:10].lab ansible_port=2222
db[a:b]

[guests:vars]
ansible_user = admin

[lab:children]
guests

[lab:vars]
ansible_port=22
ansible_user=nobody
"""
YAML = """
all:
  vars: {ansible_user: root}
  hosts:
    pc1: {ansible_host: 192.0.2.1}
  children:
    guests:
      vars: {ansible_port: 2222}
      hosts:
        vm1:
        vm2: {ansible_user: admin, ansible_port: 22}
"""


def places(hosts: list[ListedHost]) -> dict[str, str | None]:
    """Return the place of each host."""
    return {host.name: host.ssh for host in hosts}


def test_ssh_aliases_with_a_host_name_become_hosts() -> None:
    """Skip wildcards, Match blocks, hosts without HostName and second names; read included files."""
    files = {
        "extra": ["Host far\nHostName 192.0.2.99\nInclude deeper\n"],
        "deeper": ["Host deep\nHostName x\n"],
    }
    found = places(read_ssh_config(SSH_CONFIG, lambda pattern: files.get(pattern, [])))
    assert found == {name: name for name in ("far", "deep", "pc6", "pc7")}


def test_reading_circular_ssh_includes_terminates() -> None:
    """Stop at an Include cycle."""
    assert places(read_ssh_config("Include me\nHost a\nHostName b", lambda _: ["Include me\n"])) == {"a": "a"}


def test_ini_inventory_gives_hosts_with_the_variables_of_their_groups() -> None:
    """Expand ranges; apply a group's variables before its parent's, and a host's before both."""
    assert places(read_inventory(INI, "hosts")) == {
        "pc1": "root@192.0.2.1",
        "localhost": None,
        "vm08.lab": "ssh://admin@vm08.lab:2222",
        "vm09.lab": "ssh://admin@vm09.lab:2222",
        "vm10.lab": "ssh://admin@vm10.lab:2222",
        "dba": "admin@dba",
        "dbb": "admin@dbb",
    }


def test_yaml_inventory_gives_hosts_with_the_variables_of_their_groups() -> None:
    """Read nested groups with the same variables."""
    found = places(read_inventory(YAML, "hosts.yaml"))
    assert found == {"pc1": "root@192.0.2.1", "vm1": "ssh://root@vm1:2222", "vm2": "admin@vm2"}


@pytest.mark.parametrize("text", ["all: {", "---\n- pc1\n", "pc1 ansible_host='half\n"])
def test_invalid_inventory_is_refused_with_its_location(text: str) -> None:
    """Show no traceback of a parser."""
    with pytest.raises(InputError, match=r"hosts.*reading an inventory"):
        read_inventory(text, "hosts")


def test_printed_host_block_is_read_back_as_the_same_machines() -> None:
    """Adapt names and keep them unique; leave out and report a destination that is an ssh option."""
    hosts = [
        ListedHost("pc6.lab", "root@pc6.lab"),
        ListedHost("pc6.home", "ssh://root@pc6:2222"),
        ListedHost("192.0.2.1", "192.0.2.1"),
        ListedHost("a-very-long-name-of-a-host", "x"),
        ListedHost("localhost", None),
        ListedHost("evil", "-oProxyCommand=x"),
    ]
    block = machines_block(hosts)
    assert "# evil: left out" in block
    text = block.replace("# links", "links") + "measure:\n  a: {kind: stream, from: pc6, to: pc6-2}\n"
    experiment = parse(text, "lab.yaml")
    machines = Resolver(experiment).setup(next(cells(experiment))).lab.machines
    assert {name: machine.ssh for name, machine in machines.items() if isinstance(machine, Host)} == {
        "pc6": "root@pc6.lab",
        "pc6-2": "ssh://root@pc6:2222",
        "192-0-2-1": "192.0.2.1",
        "a-very-long-nam": "x",
        "localhost": None,
    }


@pytest.mark.parametrize("place", ["-oProxyCommand=x", "root@pc6 -v", "$(reboot)", "", "a;b", "a'b"])
def test_ssh_destination_that_could_be_an_option_or_command_is_refused(place: str) -> None:
    """Refuse options, spaces and shell syntax."""
    with pytest.raises(ValueError, match="user@name"):
        Host.model_validate({"kind": "host", "ssh": place})


def test_hosts_command_prints_machines_from_an_inventory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print YAML; treat a missing file, and one without hosts, as invalid input."""
    file = tmp_path / "inventory"
    file.write_text(INI)
    assert run(["hosts", "--inventory", str(file)]) == ExitCode.DONE
    assert "  pc1: {kind: host, ssh: root@192.0.2.1}" in capsys.readouterr().out
    assert run(["hosts", "--ssh-config", str(tmp_path / "none")]) == ExitCode.INPUT_WRONG
    assert run(["hosts", "--ssh-config", str(file)]) == ExitCode.INPUT_WRONG
    assert "`Host ALIAS` sections" in capsys.readouterr().err


def test_host_list_becomes_the_start_of_a_site_file() -> None:
    """Print names and destinations; comment out a destination that ssh cannot use."""
    listed = [ListedHost("pc6", "root@pc6"), ListedHost("here", None), ListedHost("odd", "-oProxy")]
    lines = site_block(listed).splitlines()
    assert lines[1:4] == [
        "  pc6: root@pc6",
        "  here: none",
        "  # odd: left out, because ssh does not accept the destination '-oProxy'",
    ]
    assert lines[-2].startswith("on: {}")
    assert lines[-1].startswith("cables: {}")
