"""User programs in a guest whose image has the installed packages and a different kernel."""

import shutil
from pathlib import Path

import pytest
from tests.guest.labs import measured
from tests.netns.runs import trials

from iolab.agent.transport import find_agent
from iolab.image import build

LAB = """
title: A web server in a guest with another kernel
lab:
  machines:
    client: {kind: netns}
    web:
      kind: vm
      image: linux-backports
      install: [nginx-light]
      files:
        page: "0123456789"
        nginx.conf: |
          user root; pid /run/nginx.pid; daemon off; error_log stderr; events {}
          http { access_log off; server { listen 80; root {files}; } }
      run:
        rules: {do: [nft, add, table, ip, lab], undo: [nft, delete, table, ip, lab], check: [nft, list, table, ip, lab]}
      services:
        nginx: {run: [nginx, -c, "{files}/nginx.conf"], ready: {listens: 80}}
  links: {lan: {ends: [client.eth0, web.eth0]}}
measure:
  kernel:
    kind: command
    on: web
    run: [uname, -r]
    duration: 1s
    metrics: {minor: {unit: count, pattern: '^6[.](\\d+)'}}
  get:
    kind: command
    on: client
    run: [python3, -c, "from urllib.request import urlopen as o; print('bytes', len(o('http://{web}/page').read()))"]
    duration: 1s
    metrics: {size: {unit: B, pattern: 'bytes (\\d+)', better: larger}}
  inside:
    kind: command
    on: web
    shell: "nft list tables; cat; pwd; sleep 0.2"
    stdin: "sees {client}"
    duration: 1s
    metrics: {address: {unit: count, pattern: 'sees 198.18.0.(\\d+)'}}
"""


@pytest.mark.full
def test_services_and_commands_are_measured_in_a_guest_with_an_additional_package(tmp_path: Path) -> None:
    """Check a service and a command in the guest, a different kernel, and an external client."""
    if shutil.which("lz4") is None:
        pytest.skip("needs lz4; scripts/packages.sh guest installs it")
    build("linux-backports:nginx-light", find_agent(), print)
    records = {record["measure"]: record for record in trials(measured(tmp_path, LAB))}
    figures = {
        name: {one["name"]: one["value"] for one in record["metrics"]} for name, record in records.items()
    }
    assert figures["kernel"]["minor"] > 1, "the kernel of the release is 6.1"
    assert figures["get"]["size"] == 10
    assert figures["inside"]["address"] == 1
    assert figures["inside"]["elapsed_s"] >= 0.2
    codes = {warning["code"] for record in records.values() for warning in record["warnings"]}
    assert "emulated" in codes or Path("/dev/kvm").exists()
