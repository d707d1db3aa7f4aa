"""The labs of kill.py: a run of each is killed at random moments."""

from benches.faults import killed_disks, killed_hosts

GUESTS = """
title: Guests
lab:
  machines:
    tester: {kind: netns}
    a: {kind: vm, memory: 192M, forward: bridge}
    b: {kind: vm, memory: 192M, forward: bridge}
  links:
    west: {ends: [tester.p0, a.eth0]}
    mid: {ends: [a.eth1, b.eth0]}
    east: {ends: [b.eth1, tester.p1]}
measure:
  lat: {kind: latency, from: tester.p0, to: tester.p1, frame_size: 64, rate: 1kpps, duration: 200ms}
factors:
  machines.b.nic: [virtio-net, e1000]
blocks: 2
"""
WIRE = """
title: Wire
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {path: {ends: [near.eth0, far.eth0], wire: {delay: 1ms}}}
measure:
  up: {kind: stream, from: near, to: far, duration: 1s}
factors:
  links.path.wire: {short: {delay: 1ms}, long: {delay: 50ms, rate: 1Gbit}}
  links.path.offload: {taps: {}, veth pairs: {tso: off}}
blocks: 2
"""
WATCH = """
title: Watch
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {path: {ends: [near.eth0, far.eth0]}}
measure:
  up: {kind: stream, from: near, to: far, duration: 1s, watch: [{at: path, line: 10Gbit, flows: 4}]}
factors:
  links.path.mtu: [1500, 9000]
blocks: 2
"""
SHAPE = """
title: Shape
lab:
  machines: {near: {kind: netns}, mid: {kind: netns, forward: bridge}, far: {kind: netns}}
  links: {west: {ends: [near.eth0, mid.eth0]}, east: {ends: [mid.eth1, far.eth0]}}
measure:
  up: {kind: stream, from: near, to: far, duration: 1s}
factors:
  links.east.shape:
    htb: {at: mid.eth1, qdisc: htb, rate: 200Mbit}
    tbf: {at: mid.eth1, qdisc: tbf, rate: 100Mbit}
    pacer: {at: mid.eth1, qdisc: pacer, rate: 100Mbit, burst: 3036}
  links.west.mtu: [1500, 1400]
blocks: 2
"""
DISK = """
title: Disk
lab:
  machines: {pc: {kind: netns}}
  volumes: {killed: {size: 64M}}
measure:
  fio: {kind: disk, program: fio, on: pc, size: 16M, fio: {each: 300ms, blocks: [4K], depths: [8]}}
factors:
  on: {files: {machines.pc.disks: [{volume: killed, fs: ext4}]}, device: {machines.pc.disks: [{volume: killed}]}}
blocks: 2
"""
ISCSI = """
title: iSCSI
lab:
  machines: {pc: {kind: netns}, store: {kind: netns}}
  links: {lan: {ends: [pc.eth0, store.eth0]}}
  volumes: {killed: {on: store, size: 64M, export: iscsi}}
measure:
  fio: {kind: disk, program: fio, on: pc, size: 16M, fio: {each: 300ms, blocks: [4K], depths: [8]}}
factors:
  on:
    files: {machines.pc.disks: [{volume: killed, via: user, fs: ext4}]}
    device: {machines.pc.disks: [{volume: killed, via: user}]}
blocks: 2
"""
GUEST_DISK = """
title: A guest's disk
lab:
  machines:
    pc: {kind: netns}
    store: {kind: netns}
    dut: {kind: vm, on: pc, memory: 192M, accel: tcg}
  links: {lan: {ends: [pc.eth0, store.eth0]}, inside: {ends: [pc.vm0, dut.eth0]}}
  volumes: {killed: {on: store, size: 64M, export: iscsi}}
measure:
  fio: {kind: disk, program: fio, on: dut, size: 16M, fio: {each: 300ms, blocks: [4K], depths: [8]}}
factors:
  machines.dut.disks:
    virtio: [{volume: killed, via: hypervisor, fs: ext4}]
    ide: [{volume: killed, via: hypervisor, bus: ide}]
blocks: 2
"""
SERVICE = """
title: Service
lab:
  machines:
    near: {kind: netns}
    far:
      kind: netns
      files: {page: "hello {near}"}
      run: {hole: {do: [ip, route, add, blackhole, 198.19.0.0/24], undo: [ip, route, del, blackhole, 198.19.0.0/24]}}
      services:
        sink: {run: [iperf3, -s], ready: {listens: 5201}}
        log: {run: [sh, -c, "setsid ip monitor & ip monitor"]}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  load: {kind: command, on: near, run: [iperf3, -t, 1, -c, "{far}"]}
factors:
  machines.far.files: {one: {page: "{near}"}, two: {page: "{far}"}}
blocks: 3
"""
COMMAND = """
title: Command
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  load:
    kind: command
    on: near
    run: [iperf3, -J, -t, 1, -c, "{far}"]
    servers: {sink: {on: far, run: [iperf3, -s], ready: {listens: 5201}}}
    metrics: {rate: {unit: bit/s, path: $.end.sum_received.bits_per_second}}
factors:
  links.lan.mtu: [1500, 9000]
blocks: 3
"""
LABS = {
    "command": COMMAND, "service": SERVICE, "guests": GUESTS, "watch": WATCH, "wire": WIRE, "shape": SHAPE,
    "disk": DISK, "iscsi": ISCSI, "guest-disk": GUEST_DISK, "hosts": killed_hosts.LAB,
    "existing": killed_disks.LAB,
}  # fmt: skip
