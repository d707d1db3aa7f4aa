"""Files, changes and services on machines: created, read back, changed as levels, and removed."""

import subprocess
from pathlib import Path

import pytest
from tests.netns.runs import Iolab, processes_with, trials

pytestmark = pytest.mark.netns
WEB = """
lab:
  machines:
    client: {kind: netns}
    web:
      kind: netns
      files: {index.html: "hello {client}"}
      run:
        blackhole: {do: [ip, route, add, blackhole, 198.19.0.0/24], undo: [ip, route, del, 198.19.0.0/24],
                    check: [ip, route, get, fibmatch, 198.18.0.1]}
      services:
        http: {run: [python3, -m, http.server, --bind, "{web}", --directory, "{files}", "8000"],
               ready: {listens: 8000}}
  links: {lan: {ends: [client.eth0, web.eth0]}}
measure:
  get: {kind: command, on: client, duration: 1s,
        run: [python3, -c, "from urllib.request import urlopen as o; print(o('http://{web}:8000/index.html').read())"],
        metrics: {length: {unit: count, pattern: "hello 198.18.0.(\\\\d+)"}}}
"""
SLEEP = "[sleep, '600']"
LAB = """
lab:
  machines:
    a: {kind: netns, services: {one: {run: SERVICE}}}
    b: {kind: netns}
  links: {lan: {ends: [a.eth0, b.eth0]}}
measure:
  ping: {kind: ping, from: a, to: b, duration: 1s}
"""

UNMARKED = """
lab:
  machines:
    a:
      kind: netns
      files: {page: one}
      services:
        http: {run: [env, -i, /bin/sh, -c, "trap : TERM; python3 -m http.server 8017"], ready: {listens: 8017}}
    b: {kind: netns}
  links: {lan: {ends: [a.eth0, b.eth0]}}
measure:
  ping: {kind: ping, from: a, to: b, duration: 200ms}
factors: {machines.a.files.page: [one, two, three]}
"""


def ran(iolab: Iolab, folder: Path, text: str, *words: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run an experiment; return the completed process, and the run's folder."""
    (folder / "lab.yaml").write_text(text)
    done = iolab("run", "lab.yaml", *words)
    return done, next((folder / "runs").iterdir(), folder) if (folder / "runs").exists() else folder


def left() -> dict[int, str]:
    """Return the remaining processes of services."""
    return processes_with("IOLAB_SERVICE=/run/iolab-*-services/a.one")


def test_service_serves_its_file_at_the_address_in_its_arguments(iolab: Iolab, tmp_path: Path) -> None:
    """Put the client's address into the file, and the server's address into its arguments."""
    done, folder = ran(iolab, tmp_path, WEB)
    assert done.returncode == 0, done.stdout + done.stderr
    (figure,) = (one for one in trials(folder)[0]["metrics"] if one["name"] == "length")
    assert figure["value"] == 1
    assert not list(Path("/run").glob("iolab-*"))


@pytest.mark.full
def test_level_that_changes_a_file_restarts_only_the_service_that_reads_it(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Keep the network, and restart the reader of the file."""
    levels = "factors: {machines.web.files: {one: {index.html: 'hello {client}'}, two: {index.html: 'hello {web}'}}}\n"
    done, folder = ran(iolab, tmp_path, WEB + levels, "--blocks", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    seen = {(one["cell"]["machines.web.files"], one["metrics"][0]["value"]) for one in trials(folder)}
    assert seen == {("one", 1.0), ("two", 2.0)}
    commands = (folder / "commands.jsonl").read_text()
    assert commands.count('"netns","add"') + commands.count('"netns", "add"') == 2


@pytest.mark.full
def test_service_that_overwrites_its_environment_ends_before_the_next_service_starts(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Check a server like nginx that overwrites iolab's mark with its title, and would keep the port."""
    done, folder = ran(iolab, tmp_path, UNMARKED, "--blocks", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {trial["status"] for trial in trials(folder)} == {"ok"}
    found = subprocess.run(["pgrep", "-f", "http.server 8017"], capture_output=True, text=True)
    assert found.stdout == ""


@pytest.mark.full
def test_change_whose_check_fails_makes_the_trial_fail(iolab: Iolab, tmp_path: Path) -> None:
    """Quote the check in the reason."""
    text = LAB.replace(
        "services: {one: {run: SERVICE}}", "run: {it: {do: ['true'], undo: ['true'], check: ['false']}}"
    )
    done, folder = ran(iolab, tmp_path, text)
    assert done.returncode != 0
    assert "it of a" in done.stdout + done.stderr + str(trials(folder))


@pytest.mark.parametrize(
    ("service", "said"),
    [
        pytest.param("[sh, -c, 'echo no room; exit 3']\n", "has ended", id="exits early"),
        pytest.param(
            "[sleep, '600']}, two: {run: [sleep, '600'], ready: {listens: 9}, within: 1s",
            "is not ready",
            id="not ready",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "[sleep, '600']}, two: {run: [echo, hello], ready: {prints: bye}, within: 1s",
            "hello",
            id="prints other text",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "[sleep, '600']}, two: {run: [iolab-no-such-program]",
            "iolab-no-such-program",
            id="missing program",
            marks=pytest.mark.full,
        ),
    ],
)
def test_service_that_does_not_start_is_reported_with_its_output(
    iolab: Iolab, tmp_path: Path, service: str, said: str
) -> None:
    """Leave nothing of this service or of earlier services."""
    text = LAB.replace("SERVICE", service.strip())
    if "exit 3" in service:
        text = text.replace("exit 3']", "exit 3'], ready: {listens: 9}")
    done, folder = ran(iolab, tmp_path, text)
    assert done.returncode != 0
    stored = str(trials(folder)) if (folder / "trials.jsonl").exists() else ""
    assert said in done.stdout + done.stderr + stored
    assert left() == {}
    assert not list(Path("/run").glob("iolab-*"))


@pytest.mark.parametrize(
    "service",
    [
        pytest.param("[sh, -c, 'trap \"\" TERM; while :; do sleep 1; done']", id="ignores SIGTERM"),
        pytest.param(
            "[sh, -c, 'setsid sleep 600 & exec sleep 600']", id="forks a daemon", marks=pytest.mark.full
        ),
        pytest.param(
            "[sh, -c, 'setsid sleep 600 >/dev/null 2>&1 &']",
            id="detaches from its session",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "[sh, -c, 'head -c 1G /dev/zero; exec sleep 600']", id="prints 1 GB", marks=pytest.mark.full
        ),
    ],
)
def test_service_leaves_no_process_whatever_it_does(iolab: Iolab, tmp_path: Path, service: str) -> None:
    """Create and remove its lab normally."""
    done, _ = ran(iolab, tmp_path, LAB.replace("SERVICE", service))
    assert done.returncode == 0, done.stdout + done.stderr
    assert left() == {}
    assert not list(Path("/run").glob("iolab-*"))


@pytest.mark.full
def test_service_that_dies_fails_its_trial(iolab: Iolab, tmp_path: Path) -> None:
    """Read it back, and restart it for the next trial."""
    done, folder = ran(iolab, tmp_path, LAB.replace("SERVICE", "[sleep, '0.5']"), "--blocks", "2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "service one of a" in str(trials(folder))
    assert left() == {}


def test_failed_change_of_a_lab_is_undone(iolab: Iolab, tmp_path: Path) -> None:
    """Check changes outside its namespace, too."""
    trace = tmp_path / "trace"
    change = f"{{do: [sh, -c, 'echo it > {trace}; exit 1'], undo: [rm, '-f', {trace}]}}"
    text = LAB.replace("services: {one: {run: SERVICE}}", f"run: {{it: {change}}}")
    done, _ = ran(iolab, tmp_path, text, "--keep-going")
    assert done.returncode != 0
    assert not trace.exists()
