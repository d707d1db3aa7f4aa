"""A redacted copy of a run has no names, and the same figures; its reports differ only in the names."""

import gzip
import ipaddress
import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pyarrow import parquet
from tests.unit.store.stored import GOLDEN, Killed

from iolab.cli.main import run as iolab
from iolab.errors import ExitCode, InputError, StoreError
from iolab.store import packs
from iolab.store.lines import stored_lines
from iolab.store.pack import pack
from iolab.store.read import load_run
from iolab.store.records import COMMANDS, TRIALS
from iolab.store.redaction import copying
from iolab.store.redaction.addresses import Addresses
from iolab.store.redaction.copying import redact
from iolab.store.redaction.names import Names

KEY = b"k" * 32
HOME = "/home"
PLANTED = {
    "lab-srv7.corp.example.org": "host name with domain",
    "lab-srv7": "host name",
    "storage9": "ssh destination",
    "alice": "user name",
    "S4EWNX0R123456": "serial number",
    "3c:ec:ef:12:34:56": "MAC address",
    "enx3cecef123456": "interface named after its MAC address",
    "10.47.11.5": "IPv4 address",
    "10.47.11.0/24": "network",
    "131.188.3.7": "public IPv4 address",
    "2a02:810d:1234:5678::7": "IPv6 address",
    "6f9619ff-8b86-d011-b42d-00c04fc964ff": "UUID",
    "iqn.2019-03.org.corp:disk7": "iSCSI name",
    "secretproject": "component of a path",
    "bluebird": "word of the user",
}
TEXT = (
    "started on lab-srv7.corp.example.org (lab-srv7)\nstorage9 serves alice\tS4EWNX0R123456 at 3c:ec:ef:12:34:56 "
    "enx3cecef123456: 10.47.11.5\n10.47.11.0/24 131.188.3.7 2a02:810d:1234:5678::7 "
    f"6f9619ff-8b86-d011-b42d-00c04fc964ff iqn.2019-03.org.corp:disk7 {HOME}/alice/secretproject/run.img "
    "/srv/secretproject/data /dev/disk/by-id/ata-X_S4EWNX0R123456 bluebird"
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Provide a run with names in the experiment, the facts, the commands and the raw output."""
    folder = tmp_path / "runs" / "schema-2-last-host"
    shutil.copytree(GOLDEN / folder.name, folder)
    for path in folder.rglob("*"):  # the machine `left` is named after its host, and the title too
        if path.suffix in (".json", ".jsonl", ".yaml"):
            text = re.sub(r"\bleft\b", "storage9", path.read_text())
            path.write_text(text.replace("Golden host", "Test of storage9"))
    (folder / "machines" / "left.json").rename(folder / "machines" / "storage9.json")
    experiment = folder / "experiment.yaml"
    text = experiment.read_text().replace("ssh: pc6", "ssh: alice@storage9")
    experiment.write_text(f"# of bluebird, in {HOME}/alice/secretproject/labs, on lab-srv7\n{text}")
    facts = json.loads((folder / "facts.json").read_text())
    facts |= {"hostname": "lab-srv7.corp.example.org", "daemons": TEXT.split("\n")}
    facts["disks"] = [{"name": "nvme0n1", "serial": "S4EWNX0R123456"}]
    facts["networks"] = [{"network": "10.47.11.0/24", "interface": "enx3cecef123456"}]
    (folder / "facts.json").write_text(json.dumps(facts))
    lines = [json.loads(line) for line in (folder / "commands.jsonl").read_text().splitlines()]
    lines[0]["argv"] = ["sh", "-c", TEXT]
    (folder / "commands.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    raw = next((folder / "samples").glob("*.raw.json.gz"))
    raw.write_bytes(gzip.compress(json.dumps({"stdout": TEXT, "at lab-srv7": 1.5}).encode()))
    (folder / "samples" / f"{raw.name.partition('.')[0]}.profile.lab-srv7.folded").write_text(f"{TEXT} 3\n")
    (folder / "samples" / f"{raw.name.partition('.')[0]}.near.eth0.pcapng").write_bytes(b"frames")
    (folder / "files").mkdir()
    (folder / "files" / "job-lab-srv7.fio").write_text(TEXT)
    (folder / "notes.txt").write_text("alice")
    return folder


def everything(folder: Path) -> str:
    """Return names and contents of all files below a folder, decompressed."""
    found = []
    for path in sorted(folder.rglob("*")):
        found.append(str(path.relative_to(folder)))
        if path.suffix == ".parquet":
            found.append(str(parquet.read_table(path, partitioning=None).to_pylist()))
        elif path.is_file():
            data = path.read_bytes()
            found.append((gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace"))
    return "\n".join(found)


def test_no_planted_name_is_left_in_the_copy(run: Path, tmp_path: Path) -> None:
    """Search all files and their names, whatever the case."""
    target = tmp_path / "copy" / run.name
    redact(run, target, ["bluebird"], KEY)
    text = everything(target).lower()
    assert [name for name in PLANTED if name.lower() in text] == []
    assert "3cecef" not in text
    assert "corp" not in text
    assert [name for name in PLANTED if name.lower() not in everything(run).lower()] == []


@pytest.mark.parametrize("form", ["csv", "md", "openmetrics"])
def test_reports_of_run_and_copy_differ_only_in_names(
    run: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replace the names in the run's report: it is then the report of the copy."""
    target = tmp_path / "copy" / run.name
    names = Names([*copying._texts(run)], ["bluebird"], KEY)
    redact(run, target, ["bluebird"], KEY)
    printed = []
    for folder in (run, target):
        assert iolab(["report", str(folder), "--format", form, "-o", "-"]) == ExitCode.DONE
        printed.append(capsys.readouterr().out.replace("\\_", "_"))  # Markdown escapes underscores
    edited = r"\n\n> experiment.yaml in the run folder does not match the plan[^\n]*"  # by the fixture
    original = re.sub(edited, "", printed[0])
    assert printed[1] != original
    assert squeezed(names.replaced(original)) == squeezed(printed[1])


def squeezed(text: str) -> str:
    """Return a text without differences in the widths of columns."""
    return re.sub(r"[ -]+", " ", text)


def test_packed_run_gives_the_same_copy(run: Path, tmp_path: Path) -> None:
    """Read samples and lines from packs."""
    redact(run, tmp_path / "a", ["bluebird"], KEY)
    pack(run)
    redact(run, tmp_path / "b", ["bluebird"], KEY)
    assert everything(tmp_path / "a") == everything(tmp_path / "b")


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("schema-*-*") if path.is_dir()))
def test_every_stored_schema_is_redacted_with_equal_figures(name: str, tmp_path: Path) -> None:
    """Redact runs of every schema; `redact` compares figures and codes itself."""
    redact(GOLDEN / name, tmp_path / name, [], KEY)
    before, after = load_run(GOLDEN / name), load_run(tmp_path / name)
    assert [each.cell for each in before.trials] == [each.cell for each in after.trials]
    assert before.status == after.status


def test_left_out_files_are_named(run: Path, tmp_path: Path) -> None:
    """Copy neither captures, which contain addresses, nor files that iolab did not write."""
    made = redact(run, tmp_path / "copy", [], KEY)
    assert [Path(path).suffix for path in made.left_out] == [".txt", ".pcapng"]
    assert "notes.txt" in made.left_out


@pytest.mark.parametrize("packed", [False, True])
def test_damaged_sample_is_left_out_and_named(run: Path, tmp_path: Path, packed: bool) -> None:
    """Redact the other files of the run."""
    name = min(path.name for path in (run / "samples").glob("*.raw.json.gz"))
    (run / "samples" / name).write_bytes(gzip.compress(b"{"))
    if packed:
        pack(run)
    made = redact(run, tmp_path / "copy", [], KEY)
    assert f"samples/{name}" in made.left_out
    assert not (tmp_path / "copy" / "samples" / name).exists()


def test_damaged_document_is_refused_with_its_name(run: Path, tmp_path: Path) -> None:
    """Leave no copy."""
    (run / "machines" / "storage9.json").write_text("{")
    with pytest.raises(StoreError, match=r"storage9\.json.*restore the file"):
        redact(run, tmp_path / "copy", [], KEY)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_word_that_the_records_need_is_refused_without_a_copy(run: Path, tmp_path: Path) -> None:
    """Leave nothing behind."""
    with pytest.raises(StoreError, match="--word"):
        redact(run, tmp_path / "copy", ["stream", "ok"], KEY)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_existing_folder_is_not_replaced(run: Path, tmp_path: Path) -> None:
    """Refuse a folder, a file and a dangling link."""
    (tmp_path / "link").symlink_to("nowhere")
    for target in (run, run / "plan.json", tmp_path / "link"):
        with pytest.raises(InputError, match="does not exist yet"):
            redact(run, target, [], KEY)


def test_interrupted_redaction_leaves_no_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rename the copy only when it is complete."""

    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(copying, "_compare", killed)
    with pytest.raises(Killed):
        redact(run, tmp_path / "copy", [], KEY)
    assert not (tmp_path / "copy").exists()


def test_host_name_that_is_a_word_of_the_records_is_replaced_as_host_name_only(tmp_path: Path) -> None:
    """The host of the golden runs is called host."""
    redact(GOLDEN / "schema-3-first-mixed", tmp_path / "copy", [], KEY)
    assert json.loads((tmp_path / "copy" / "facts.json").read_text())["hostname"] == "host-r0"
    assert b"host_cpu_ratio" in b"".join(line for _, line in stored_lines(tmp_path / "copy", TRIALS))


def addresses(version: int) -> some.SearchStrategy[int]:
    """Draw IP addresses as integers."""
    return some.integers(0, 2 ** (32 if version == 4 else 128) - 1)


@given(addresses(4), addresses(4), some.binary(min_size=1, max_size=8))
def test_common_prefixes_of_addresses_are_kept(one: int, other: int, key: bytes) -> None:
    """Two addresses share as many leading bits after the replacement as before."""
    first, second = ipaddress.IPv4Address(one), ipaddress.IPv4Address(other)
    replacement = Addresses(key, [])
    changed = [int(ipaddress.IPv4Address(replacement.ip(str(each)))) for each in (first, second)]
    kept = {str(each) for each in (first, second)} & {replacement.ip(str(each)) for each in (first, second)}
    if not kept:
        assert (one ^ other).bit_length() == (changed[0] ^ changed[1]).bit_length()


@pytest.mark.parametrize("network", ["10.0.0.0/8", "10.32.0.0/11", "192.168.4.0/22", "2a02:8100::/29"])
def test_networks_stay_networks(network: str) -> None:
    """Keep host bits 0, and members inside."""
    known = ipaddress.ip_network(network)
    replacement = Addresses(KEY, [known])
    changed = ipaddress.ip_network(f"{replacement.ip(str(known.network_address))}/{known.prefixlen}")
    assert ipaddress.ip_address(replacement.ip(str(known[300]))) in changed


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "0.0.0.0", "255.255.255.0", "198.18.0.1", "::1", "fe80", "1.2.3", "1.2.3.4.5", "12:34:56",
     "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "bit/s", "and/or", "/proc/sys/net/core/rmem_max",
     "std::ops::add::Add", "6f9619ff8b86d011b42d00c04fc964ff"],
)  # fmt: skip
def test_text_that_identifies_nobody_stays_the_same(text: str) -> None:
    """Recognise special addresses, units, system paths and digests."""
    assert Names([], [], KEY).replaced(f"x {text} y") == f"x {text} y"


def test_commands_of_the_copy_are_still_commands(run: Path, tmp_path: Path) -> None:
    """Count them."""
    redact(run, tmp_path / "copy", [], KEY)
    assert len([*stored_lines(tmp_path / "copy", COMMANDS)]) == len([*stored_lines(run, COMMANDS)])
    assert packs.sample_names(tmp_path / "copy" / "samples", ".gz")
