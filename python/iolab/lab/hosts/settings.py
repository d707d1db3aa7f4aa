"""Kernel settings of computers that every experiment may set: those that measuring is about."""

HARMLESS = (
    "net.", "vm.dirty_", "vm.swappiness", "vm.vfs_cache_pressure", "vm.nr_hugepages", "kernel.numa_balancing",
    "kernel.sched_", "kernel.timer_migration", "kernel.watchdog", "kernel.nmi_watchdog", "fs.aio-max-nr",
)  # fmt: skip
"""What their names begin with; none makes the kernel start a program, load code or write to a place."""

PROTECTIVE = ("net.core.bpf_jit_harden", "net.core.bpf_jit_kallsyms", "net.ipv4.ip_unprivileged_port_start")
"""Of these names, settings that protect the kernel or its other users."""


def is_harmless(setting: str) -> bool:
    """Return whether every experiment may set a setting; others, such as kernel.core_pattern, need the user's word."""
    name = setting.replace("/", ".")
    return name.startswith(HARMLESS) and name not in PROTECTIVE
