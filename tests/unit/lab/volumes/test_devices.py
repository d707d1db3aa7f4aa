"""Existing devices: which of them may be written, and the objects that a lab creates for them."""

import json

import pytest
from pydantic import TypeAdapter

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.volumes import Consents, Volume
from iolab.lab.actions import Run, StartGuest
from iolab.lab.compose import compose
from iolab.lab.guests.guest import RecordedFile, passed_files
from iolab.lab.guests.qemu import Boot, Place, qemu_argv
from iolab.lab.volumes.devices import ExaminedDevice, Obstacle, refusal
from iolab.messages.checks import DiskOffered, DiskWithout
from iolab.run.doctor.disks import described

DISK = "/dev/disk/by-id/nvme-X"
NAMED = Consents(writes=frozenset({"S1"}))
BOTH = Consents(writes=frozenset({"S1"}), destroys=frozenset({"S1"}))


def seen(*kinds: str, identities: tuple[str, ...] = ("S1", "eui.1")) -> ExaminedDevice:
    """Return a device with obstacles of these kinds."""
    return ExaminedDevice(
        DISK, identities, ("nvme0n1",), 1 << 30, tuple(Obstacle(one, "x", "p1") for one in kinds)
    )


@pytest.mark.parametrize(
    ("device", "consents", "code"),
    [
        (seen(identities=()), BOTH, "run.device-without-identity"),
        (seen(), Consents(), "run.device-not-permitted"),
        (seen(), Consents(writes=frozenset({"S2"})), "run.device-not-permitted"),
        (seen(), Consents(destroys=frozenset({"S1"})), "run.device-not-permitted"),
        (seen("mounted"), BOTH, "run.device-mounted"),
        (seen("signature", "mounted"), BOTH, "run.device-mounted"),
        (seen("swap"), BOTH, "run.device-swap"),
        (seen("held"), BOTH, "run.device-held"),
        (seen("loop"), BOTH, "run.device-held"),
        (seen("busy"), BOTH, "run.device-busy"),
        (seen("reserved"), BOTH, "run.device-reserved"),
        (seen("read-only"), BOTH, "run.device-read-only"),
        (seen("signature"), NAMED, "run.device-with-content"),
        (seen("signature"), BOTH, None),
        (seen(), NAMED, None),
        (seen(), Consents(writes=frozenset({"eui.1"})), None),
    ],
)
def test_device_is_written_only_with_every_consent_and_never_while_it_is_in_use(
    device: ExaminedDevice, consents: Consents, code: str | None
) -> None:
    """Name the device in each refusal."""
    found = refusal(device, consents)
    assert (found.code if found is not None else None) == code
    assert found is None or DISK in str(found)


def lab_of(kind: str, writes: str | None = None, consents: Consents = NAMED, bus: str | None = None) -> Lab:
    """Return a lab whose machine has an existing device as its disk."""
    disk = {"volume": "v"} | ({"bus": bus} if bus else {})
    machine = TypeAdapter[Machine](Machine).validate_python({"kind": kind, "disks": [disk]})
    volume = Volume.model_validate({"device": DISK} | ({"writes": writes} if writes else {}))
    return Lab({"pc": machine}, {}, {"v": volume}, consents=consents)


def test_lab_on_an_existing_device_creates_only_a_record_and_a_link_and_removes_both() -> None:
    """Create, resize or remove no device; pass the consents only if the file also permits writing."""
    for writes, allowed in (("allowed", ["S1"]), (None, [])):
        (made,) = [one for one in compose(lab_of("netns", writes), cpus=2) if one.key == "device:v"]
        runs = [one for one in made.actions if isinstance(one, Run)]
        request = json.loads(runs[1].do.argv[-1])
        assert (request["device"], request["allowed"], request["record"]) == (
            DISK,
            allowed,
            "/run/iolab-v.device",
        )
        undone = [one.undo.argv for one in runs if one.undo is not None]
        assert undone == [("rm", "-f", "/run/iolab-v.device"), ("rm", "-f", "/dev/iolab-v")]
        assert DISK not in [one.do.argv[-1] for one in runs]


def test_device_must_keep_the_identity_that_it_had_at_the_start_of_the_run() -> None:
    """Pass it to the agent, which refuses a different device at the same path."""
    known = Consents(known=frozenset({("", DISK, "S1")}))
    (made,) = [one for one in compose(lab_of("netns", consents=known), cpus=2) if one.key == "device:v"]
    (_, record, *_) = [one for one in made.actions if isinstance(one, Run)]
    assert json.loads(record.do.argv[-1])["expected"] == "S1"


@pytest.mark.parametrize(("writes", "option"), [(None, ",readonly=on"), ("allowed", "")])
def test_qemu_gets_the_descriptor_of_a_device_and_never_its_path(writes: str | None, option: str) -> None:
    """Make a device that is only read read-only in the guest."""
    (action,) = [
        a for r in compose(lab_of("vm", writes), cpus=2) for a in r.actions if isinstance(a, StartGuest)
    ]
    passed = [one for one in passed_files(action.guest) if isinstance(one.open, RecordedFile)]
    modes = (False,) if writes is None else (False, True)  # QEMU opens the device for reading first
    assert [one.open for one in passed] == [
        RecordedFile(record="/run/iolab-v.device", writes=mode) for mode in modes
    ]
    place = Place(folder="/run/f", boot=Boot("k", "i", "r", "m"), accel="tcg")
    argv = qemu_argv(action.guest, place)
    assert DISK not in " ".join(argv)
    assert all(f"fd={one.fd},set=0" in argv for one in passed)
    drive = (
        f"if=none,id=disk0,file.driver=host_device,file.filename=/dev/fdset/0,format=raw,cache=none{option}"
    )
    assert drive in argv


def test_volume_in_a_folder_is_created_below_the_folder_of_labs() -> None:
    """Remove that folder again if it is empty."""
    machine = TypeAdapter[Machine](Machine).validate_python({"kind": "netns", "disks": [{"volume": "v"}]})
    lab = Lab({"pc": machine}, {}, {"v": Volume.model_validate({"folder": "/data", "size": "16M"})})
    made = {one.key: one for one in compose(lab, cpus=2)}
    check, folder, look, file, *_ = made["volume:v"].actions
    assert isinstance(check, Run)
    assert check.undo is None
    assert isinstance(folder, Run)
    assert folder.do.argv[-1] == "/data/.iolab-volumes"
    assert folder.undo is not None
    assert "rmdir --ignore-fail-on-non-empty" in folder.undo.argv[2]
    assert isinstance(look, Run)
    assert look.do.argv[-1] == "/data/.iolab-volumes"
    assert isinstance(file, Run)
    assert file.do.argv[3] == "/data/.iolab-volumes/iolab-v"
    assert isinstance(made["disk:pc.v"].actions[0], Run)
    assert made["disk:pc.v"].actions[0].do.argv[-1] == "/data/.iolab-volumes/iolab-v"


def test_doctor_shows_for_each_device_whether_it_may_be_written() -> None:
    """Show the most important reason."""
    assert described(seen(identities=())) == DiskWithout(size_bytes=1 << 30)
    codes = [("disk-free",), ("disk-with-content", "signature"), ("disk-read-only", "signature", "read-only")]
    for code, *kinds in [*codes, ("disk-in-use", "signature", "mounted")]:
        found = described(seen(*kinds))
        assert isinstance(found, DiskOffered)
        assert found.code == code
