"""Volumes: files that guests have as disks. Pure."""
