"""Lists of hosts become machines: ssh's aliases, Ansible's inventories of both forms, and names that have to change."""

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
    """Return where each is."""
    return {host.name: host.ssh for host in hosts}


def test_aliases_are_names_with_a_host_name() -> None:
    """Wildcards, Match blocks, hosts without HostName and second names are none; included files count."""
    files = {
        "extra": ["Host far\nHostName 192.0.2.99\nInclude deeper\n"],
        "deeper": ["Host deep\nHostName x\n"],
    }
    found = places(read_ssh_config(SSH_CONFIG, lambda pattern: files.get(pattern, [])))
    assert found == {name: name for name in ("far", "deep", "pc6", "pc7")}


def test_files_that_include_each_other_end() -> None:
    """A circle of Include lines is left in time."""
    assert places(read_ssh_config("Include me\nHost a\nHostName b", lambda _: ["Include me\n"])) == {"a": "a"}


def test_an_ini_inventory_gives_hosts_with_what_their_groups_say() -> None:
    """Ranges are expanded, a group's word goes before its parent's, and a host's own before both."""
    assert places(read_inventory(INI, "hosts")) == {
        "pc1": "root@192.0.2.1",
        "localhost": None,
        "vm08.lab": "ssh://admin@vm08.lab:2222",
        "vm09.lab": "ssh://admin@vm09.lab:2222",
        "vm10.lab": "ssh://admin@vm10.lab:2222",
        "dba": "admin@dba",
        "dbb": "admin@dbb",
    }


def test_a_yaml_inventory_gives_the_same_kind_of_hosts() -> None:
    """Groups nest, and say the same things."""
    found = places(read_inventory(YAML, "hosts.yaml"))
    assert found == {"pc1": "root@192.0.2.1", "vm1": "ssh://root@vm1:2222", "vm2": "admin@vm2"}


@pytest.mark.parametrize("text", ["all: {", "---\n- pc1\n", "pc1 ansible_host='half\n"])
def test_what_is_no_inventory_is_told_with_its_place(text: str) -> None:
    """No traceback of a parser reaches the user."""
    with pytest.raises(InputError, match=r"hosts.*reading an inventory"):
        read_inventory(text, "hosts")


def test_the_block_is_read_back_as_the_same_machines() -> None:
    """Names are made to fit the language and kept apart; a place that is an option of ssh is left out, and said."""
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
def test_a_place_that_ssh_could_take_for_something_else_is_refused(place: str) -> None:
    """Options, spaces and what a shell would run are no host."""
    with pytest.raises(ValueError, match="user@name"):
        Host.model_validate({"kind": "host", "ssh": place})


def test_the_command_prints_what_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From an inventory; a file that is not there, and one without hosts, are wrong input."""
    file = tmp_path / "inventory"
    file.write_text(INI)
    assert run(["hosts", "--inventory", str(file)]) == ExitCode.DONE
    assert "  pc1: {kind: host, ssh: root@192.0.2.1}" in capsys.readouterr().out
    assert run(["hosts", "--ssh-config", str(tmp_path / "none")]) == ExitCode.INPUT_WRONG
    assert run(["hosts", "--ssh-config", str(file)]) == ExitCode.INPUT_WRONG
    assert "`Host ALIAS` sections" in capsys.readouterr().err


def test_a_list_of_hosts_begins_a_site() -> None:
    """Names and where they are reached; what cannot be given to ssh stays a comment."""
    listed = [ListedHost("pc6", "root@pc6"), ListedHost("here", None), ListedHost("odd", "-oProxy")]
    lines = site_block(listed).splitlines()
    assert lines[1:4] == [
        "  pc6: root@pc6",
        "  here: none",
        "  # odd: left out, ssh takes no destination '-oProxy'",
    ]
    assert lines[-2].startswith("on: {}")
    assert lines[-1].startswith("cables: {}")
