"""A host that reboots in mid-run: its lab, and what waits for it."""

HOSTS = """
lab:
  machines:
    ctl: {kind: netns}
    pc6: {kind: vm, accel: tcg, image: host}
    pc7: {kind: vm, accel: tcg, image: host}
  links:
    ssh6: {ends: [ctl.c6, pc6.eth0], addresses: {ctl.c6: 198.19.6.1/24, pc6.eth0: 198.19.6.2/24}}
    ssh7: {ends: [ctl.c7, pc7.eth0], addresses: {ctl.c7: 198.19.7.1/24, pc7.eth0: 198.19.7.2/24}}
    lan: {ends: [pc6.eth1, pc7.eth1], addresses: {pc6.eth1: 198.19.8.1/24, pc7.eth1: 198.19.8.2/24}}
measure:
  tcp: {kind: stream, from: pc6.eth1, to: pc7.eth1}
"""
"""Two guests that stand for two computers, each joined to where ssh is started, and to each other."""
