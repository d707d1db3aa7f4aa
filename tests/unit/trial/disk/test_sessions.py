"""What an iSCSI session has agreed on, as open-iscsi shows it."""

import subprocess
from pathlib import Path

from iolab.lab.volumes.scripts import SHOW_NEGOTIATED
from iolab.trial.disk.layers import session_metrics

TARGET = "iqn.2026-01.net.iolab:lun0"


def test_the_script_reads_the_session_with_this_target_and_no_other(tmp_path: Path) -> None:
    """Below /sys as Linux 6.1 has it; names are those of the protocol."""
    for number, target in enumerate((TARGET, "iqn.2024-01.other:disk"), 1):
        session = tmp_path / f"iscsi_session/session{number}"
        line = session / "device/connection1:0/iscsi_connection/connection1:0"
        line.mkdir(parents=True)
        values = {"targetname": target, "first_burst_len": 65536 * number, "max_burst_len": 262144}
        values |= {"initial_r2t": 1, "immediate_data": 1}
        for name, value in values.items():
            (session / name).write_text(f"{value}\n")
        for name in ("max_recv_dlength", "max_xmit_dlength", "header_digest", "data_digest"):
            (line / name).write_text("8192\n" if "xmit" in name else "0\n")
    script = SHOW_NEGOTIATED.replace("/sys/class", str(tmp_path))
    shown = subprocess.run(["sh", "-c", script, TARGET], capture_output=True, text=True, check=True).stdout
    agreed = dict(line.split("=") for line in shown.splitlines())
    assert agreed["FirstBurstLength"] == "65536"
    assert agreed["MaxXmitDataSegmentLength"] == "8192"
    assert agreed["InitialR2T"] == "1"


def test_sizes_are_metrics_and_words_are_not() -> None:
    """Each by its name in the protocol; what is not shown is no zero."""
    session = {"FirstBurstLength": "65536", "InitialR2T": "1", "MaxBurstLength": ""}
    found = list(session_metrics(session, {"FirstBurstLength": "131072", "ImmediateData": "Yes"}))
    assert [(one.name, one.quantity.dimensions.part, one.value) for one in found] == [
        ("iscsi_agreed_bytes", "FirstBurstLength", 65536.0),
        ("iscsi_asked_bytes", "FirstBurstLength", 131072.0),
    ]
