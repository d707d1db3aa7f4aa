"""Volumes: files that machines use as disks. Pure."""
