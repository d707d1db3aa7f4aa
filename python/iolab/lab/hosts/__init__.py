"""Hosts: what one is and can do, how ready it is to be measured on, how its processors run. Pure."""
