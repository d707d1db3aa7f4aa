"""Ports of machines: VLAN, MTU, offloads, bridges inside machines, addresses and routes. Pure."""
