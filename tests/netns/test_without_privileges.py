"""What root can do without CAP_NET_ADMIN and CAP_SYS_ADMIN, as in a container that was started without privileges."""

import subprocess
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.runs import PATIENCE_S, Iolab, trials

pytestmark = pytest.mark.netns
LABS = Path(__file__).parents[2] / "labs"


@pytest.fixture
def unprivileged(unchanged_host: None, tmp_path: Path) -> Iolab:
    """Run the installed command in the test's folder with the capabilities that such a container lacks taken away."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        argv = ["setpriv", "--bounding-set", "-net_admin,-sys_admin", str(IOLAB), *map(str, arguments)]
        return subprocess.run(argv, cwd=tmp_path, timeout=PATIENCE_S, capture_output=True, text=True)

    return run


def test_a_lab_of_namespaces_is_refused_with_what_to_permit(unprivileged: Iolab, tmp_path: Path) -> None:
    """Before anything is made."""
    refused = unprivileged("run", LABS / "quickstart.yaml")
    assert refused.returncode == 3
    assert "docker run --cap-add NET_ADMIN --cap-add SYS_ADMIN" in refused.stderr
    assert not list(tmp_path.glob("runs/*"))


def test_a_host_measures_itself(unprivileged: Iolab, tmp_path: Path) -> None:
    """Streams over its loopback interface, and a file on its disk, of which nothing is left."""
    done = unprivileged("run", LABS / "loopback.yaml", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    found = trials(folder)
    assert {trial["measure"] for trial in found} == {"tcp", "udp", "file"}
    assert all(trial["status"] == "ok" and trial["metrics"] for trial in found)
    assert not Path("/var/tmp/iolab-loopback").exists()
