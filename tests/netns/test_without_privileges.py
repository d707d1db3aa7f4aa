"""Root without CAP_NET_ADMIN and CAP_SYS_ADMIN, as in an unprivileged container."""

import subprocess
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.runs import PATIENCE_S, Iolab, trials

pytestmark = pytest.mark.netns
LABS = Path(__file__).parents[2] / "labs"


@pytest.fixture
def unprivileged(unchanged_host: None, tmp_path: Path) -> Iolab:
    """Run the installed command in the test's folder without the capabilities that such a container lacks."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        argv = ["setpriv", "--bounding-set", "-net_admin,-sys_admin", str(IOLAB), *map(str, arguments)]
        return subprocess.run(argv, cwd=tmp_path, timeout=PATIENCE_S, capture_output=True, text=True)

    return run


def test_lab_of_namespaces_is_refused_and_the_missing_capabilities_are_named(
    unprivileged: Iolab, tmp_path: Path
) -> None:
    """Report it before anything is created."""
    refused = unprivileged("run", LABS / "quickstart.yaml")
    assert refused.returncode == 3
    assert "docker run --cap-add NET_ADMIN --cap-add SYS_ADMIN" in refused.stderr
    assert not list(tmp_path.glob("runs/*"))


def test_host_measures_itself_without_privileges(unprivileged: Iolab, tmp_path: Path) -> None:
    """Measure loopback streams, and a file on its disk that is removed."""
    done = unprivileged("run", LABS / "loopback.yaml", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    found = trials(folder)
    assert {trial["measure"] for trial in found} == {"tcp", "udp", "file"}
    assert all(trial["status"] == "ok" and trial["metrics"] for trial in found)
    assert not Path("/var/tmp/iolab-loopback").exists()
