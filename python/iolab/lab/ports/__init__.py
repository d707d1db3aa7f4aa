"""Ports of machines: VLANs, MTUs, offloads, bridges inside machines, addresses and routes. Pure."""
