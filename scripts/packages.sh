#!/usr/bin/env bash
# Makes sure that the programs of the named groups (run, build, lint, browser, ssh, guest, storage, programs) are on this
# machine: looks first, and asks apt only for what is missing. Does not touch Python's or Rust's own packages.
# Called by make: packages.sh GROUP...
set -euo pipefail

readonly MIN_RUST=1.85  # the first with the 2024 edition
readonly HERE=${0%/*}
PATH=$PATH:/usr/sbin:/sbin  # ip and ethtool live there, outside an ordinary user's PATH

main() {
    look "$@"
    ((${#missing[@]})) || return 0
    has apt-get || give_up "this machine has no apt"
    find_root || give_up "that needs root, and sudo is not here or asks for a password nobody can type"
    as_root apt-get -qq update || give_up "apt-get update failed; is there a network?"
    choose_rust
    echo "setup: apt installs what is missing: ${missing[*]}"
    keep_sshd_asleep
    keep_services_asleep
    as_root apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends install "${missing[@]}" >build/apt.log 2>&1 ||
        { tail -n 20 build/apt.log >&2; give_up "apt-get install failed (the log is build/apt.log)"; }
    look "$@"
    ((${#missing[@]} == 0)) || give_up "apt was content, yet that is not usable"
}

look() {
    local group
    missing=()
    for group in "$@"; do "look_for_$group"; done
}

look_for_run() {
    [[ -x .venv/bin/iolab ]] || "$HERE/python.sh" find >/dev/null || missing+=(python3 python3-venv)
    has ip || missing+=(iproute2)
    has ethtool || missing+=(ethtool)
    local program package
    while read -r program package; do
        [[ $program == "#"* ]] || has "$program" || missing+=("$package")
    done <"$HERE/../requirements/programs.txt"
    [[ -s /etc/ssl/certs/ca-certificates.crt || -n ${SSL_CERT_FILE:-} ]] || missing+=(ca-certificates)
}

look_for_build() {
    { has gcc && [[ -e $(gcc -print-file-name=libc.a) ]]; } || missing+=(gcc libc6-dev)
    { has rustc && has cargo && at_least "$MIN_RUST" "$(rustc --version | cut -d' ' -f2)"; } || missing+=(rustc cargo)
}

look_for_lint() {
    # A toolchain that did not come from Debian brings its own clippy and rustfmt: lint.sh says how.
    if has cargo && [[ $(command -v cargo) != /usr/bin/cargo ]]; then return 0; fi
    has cargo-clippy || missing+=(rust-clippy)
    has cargo-fmt || missing+=(rustfmt)
}

look_for_browser() {
    has chromium || has google-chrome || missing+=(chromium)
}

# What reads captures beside iolab: it did not write them.
look_for_capture() {
    has tshark || missing+=(tshark)
}

# What labs and tests of services, programs of the user's own and profiles run.
look_for_programs() {
    has nft || missing+=(nftables)
    has ab || missing+=(apache2-utils)
    local program
    for program in wrk hey sockperf dnsperf fping; do has "$program" || missing+=("$program"); done
    has dnsmasq || missing+=(dnsmasq-base)
    has nginx || missing+=(nginx-light)
    has perf || missing+=(linux-perf)
}

# For tests of remote hosts and of paths: an sshd that is started in namespaces; Debian's own is kept from starting.
look_for_ssh() {
    has ssh || missing+=(openssh-client)
    has sshd || missing+=(openssh-server)
    has sudo || missing+=(sudo)
    has ping || missing+=(iputils-ping)
}

# What builds a guest's image, and what starts it.
look_for_guest() {
    has mmdebstrap || missing+=(mmdebstrap)
    has mksquashfs || missing+=(squashfs-tools)
    has mkfs.ext4 || missing+=(e2fsprogs)
    has depmod || missing+=(kmod)
    has zstd || missing+=(zstd)
    has lz4 || missing+=(lz4)
    has qemu-system-x86_64 || missing+=(qemu-system-x86)
    has dpdk-testpmd || missing+=(dpdk-dev)
    [[ -e /usr/share/seabios/bios-256k.bin ]] || missing+=(seabios)
    [[ -e /usr/lib/ipxe/qemu/efi-virtio.rom ]] || missing+=(ipxe-qemu)
    ((EUID == 0)) || has newuidmap || missing+=(uidmap)
}

# What measures disks, and what exports and attaches them.
look_for_storage() {
    has hdparm || missing+=(hdparm)
    has bonnie++ || missing+=(bonnie++)
    has fio || missing+=(fio)
    has tgtd || missing+=(tgt)
    has iscsi-inq || missing+=(libiscsi-bin)
    has qemu-nbd || missing+=(qemu-utils)
    has qemu-storage-daemon || missing+=(qemu-system-common)
    compgen -G '/usr/lib*/qemu/block-iscsi.so' >/dev/null || compgen -G '/usr/lib/*/qemu/block-iscsi.so' >/dev/null ||
        missing+=(qemu-block-extra)
    has mkfs.ext4 || missing+=(e2fsprogs)
    { has losetup && has swapon; } || missing+=(mount)
    { has blkid && has partx; } || missing+=(util-linux)
    has sfdisk || missing+=(fdisk)
}

# Debian 12's own Rust is too old; the one it keeps for building browsers is new enough and has other names.
choose_rust() {
    apt-cache show rustc-web >/dev/null 2>&1 || return 0
    local i
    for i in "${!missing[@]}"; do
        case ${missing[i]} in
            rustc | cargo | rustfmt) missing[i]+=-web ;;
            rust-clippy) missing[i]=rust-web-clippy ;;
        esac
    done
}

# What Debian's own service and socket look for; the tests start sshd themselves.
keep_sshd_asleep() {
    [[ " ${missing[*]} " == *" openssh-server "* ]] || return 0
    as_root mkdir -p /etc/ssh
    as_root touch /etc/ssh/sshd_not_to_be_run
}

# Labs start what they need themselves; no service of a package shall run beside them.
keep_services_asleep() {
    local -r policy=/usr/sbin/policy-rc.d
    [[ " ${missing[*]} " == *" nginx-light "* && ! -e $policy ]] || return 0
    trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
}

find_root() {
    if ((EUID == 0)); then
        sudo=()
    elif has sudo && { sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo true; }; }; then
        sudo=(sudo)
    else
        return 1
    fi
}

as_root() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "$@" </dev/null; }

has() { command -v "$1" >/dev/null 2>&1; }

at_least() { [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n1) == "$1" ]]; }

give_up() {
    echo "setup: cannot install ${missing[*]}: $1." >&2
    echo "setup: install these by hand (names of Debian packages; rustc and cargo from $MIN_RUST, or rustup's), then try again." >&2
    exit 1
}

mkdir -p build
main "$@"
