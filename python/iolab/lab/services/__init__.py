"""What stands on machines beside their network: files, changes by commands, services."""
