"""Files, changes and services of machines: commands and order, effects of a level, and refused input."""

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.lab.actions import Run
from iolab.lab.compose import compose
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need, NeedKind
from iolab.lab.resources import Resource, difference

TEXT = """\
lab:
  machines:
    client: {kind: netns}
    web:
      kind: netns
      program_cpus: [1]
      files: {site.conf: "listen {web}; allow {client}"}
      run: {rules: {do: [nft, -f, "{files}/site.conf"], undo: [nft, flush, ruleset], check: [nft, list, ruleset]}}
      services:
        http: {run: [nginx, -c, "{files}/site.conf"], environment: {WHO: "{client}"}, ready: {listens: 80}, within: 5s}
  links: {lan: {ends: [client.eth0, web.eth0]}}
measure: {ping: {kind: ping, from: client, to: web, duration: 1s}}
"""
FACTOR = """\
factors:
  machines.web.services.http.ready:
    {tcp: {listens: 80}, text: {prints: up}, program: {succeeds: [curl, "{web}"]}, at once: {}}
"""


def labs(text: str = TEXT) -> list[tuple[Resource, ...]]:
    """Return the resources of each cell's lab."""
    experiment = parse(text, "f.yaml")
    resolver = Resolver(experiment)
    return [compose(resolver.setup(cell).lab) for cell in cells(experiment)]


def action(lab: tuple[Resource, ...], key: str) -> Run:
    """Return the command of a resource."""
    (resource,) = (one for one in lab if one.key == key)
    (found,) = resource.actions
    assert isinstance(found, Run)
    return found


def test_placeholders_for_addresses_and_folders_are_replaced_in_commands() -> None:
    """Replace them in files, changes and services."""
    (lab,) = labs()
    assert action(lab, "file:web:site.conf").do.argv[-1] == "listen 198.18.0.2; allow 198.18.0.1"
    assert action(lab, "run:web:rules").do.argv == ("nft", "-f", "/run/iolab-files-web/site.conf")
    argv = action(lab, "service:web:http").do.argv
    assert argv[3:] == (
        "/run/iolab-services/web.http", "tcp", "80", "5", "taskset", "--cpu-list", "1",
        "env", "WHO=198.18.0.1", "nginx", "-c", "/run/iolab-files-web/site.conf",
    )  # fmt: skip


def test_files_then_changes_then_services_are_set_up_after_the_network_of_the_machine() -> None:
    """Order files, changes, services."""
    (lab,) = labs()
    keys = [resource.key for resource in lab]
    order = ["address:web.eth0", "file:web:site.conf", "run:web:rules", "service:web:http"]
    assert [key for key in keys if key in order] == order


def test_change_is_undone_in_its_namespace_before_the_namespace_is_deleted() -> None:
    """End a service from outside, because it may have left its namespace."""
    (lab,) = labs()
    undo = action(lab, "run:web:rules").undo
    assert undo is not None
    assert (undo.argv, undo.netns) == (("nft", "flush", "ruleset"), "iolab-web")
    ended = action(lab, "service:web:http").undo
    assert ended is not None
    assert ended.netns is None
    assert all(one.undone_first for one in lab if one.key.split(":")[0] in ("file", "run", "service"))


def test_change_of_a_service_restarts_only_that_service() -> None:
    """Stop and start only that service."""
    before, *others = labs(TEXT + FACTOR)
    for after in others:
        change = difference(before, after)
        assert [one.key for one in change.undo] == ["service:web:http"]
        assert [one.key for one in change.do] == ["service:web:http"]


def test_readiness_of_a_service_is_determined_by_port_output_command_or_start() -> None:
    """Check a port, an output, a command, and nothing."""
    by = [action(lab, "service:web:http").do.argv[4:6] for lab in labs(TEXT + FACTOR)]
    assert by == [("tcp", "80"), ("prints", "up"), ("succeeds", "curl 198.18.0.2"), ("started", "")]


def test_file_change_or_service_may_be_none_in_a_level() -> None:
    """Leave it out of the lab."""
    levels = "factors: {machines.web.run.rules: {with: {do: ['true'], undo: ['true']}, without: none}}\n"
    have, lack = ({one.key for one in lab} for lab in labs(TEXT + levels))
    assert have - lack == {"run:web:rules"}


def test_programs_named_by_changes_and_services_are_required() -> None:
    """List each by name."""
    experiment = parse(TEXT, "f.yaml")
    lab = Resolver(experiment).setup(next(iter(cells(experiment)))).lab
    needs = [one for one in lab_needs(lab) if isinstance(one, Need) and one.kind is NeedKind.NAMED_PROGRAM]
    assert [one.name for one in needs] == ["nft", "nginx"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "ready: {listens: 80}",
            "ready: {listens: 80, prints: up}",
            "saw 2 of the alternative keys; allowed: only one of `listens`",
        ),
        ("within: 5s", "within: 51s", "saw 51 s; allowed: at most 50 s"),
        (", undo: [nft, flush, ruleset]", "", "undo"),
        ("do: [nft, -f", "do: ['', -f", "saw an empty first word; allowed: a program name"),
        ("[nginx, -c", "['', -c", "saw an empty first word; allowed: a program name"),
        ("site.conf:", "../site.conf:", "../site.conf"),
        ("http: {run", "ht tp: {run", "ht tp"),
        ("services:\n", "servces:\n", "did you mean 'services'?"),
    ],
)
def test_invalid_service_is_refused_with_its_location(old: str, new: str, said: str) -> None:
    """Report the place."""
    assert old in TEXT
    with pytest.raises(InputError) as caught:
        labs(TEXT.replace(old, new, 1))
    assert said in str(caught.value)


def test_address_placeholder_of_a_machine_with_two_addresses_needs_a_port() -> None:
    """Refuse the machine's name, which stands for no single address."""
    two = TEXT.replace("links: {", "links: {other: {ends: [client.eth1, web.eth1]}, ")
    with pytest.raises(InputError) as caught:
        labs(two)
    assert "saw web, which has 2 addresses; allowed: machine.port, such as web.eth0" in str(caught.value)
