"""Parse the output of ip, tc and ethtool and kernel settings to values. Pure."""
