"""What ip, tc, ethtool and the kernel show, read as values. Pure."""
