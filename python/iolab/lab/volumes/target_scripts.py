"""Scripts that log in to existing targets, and log out; the scripts leave the host's own sessions and records
unchanged.

Arguments are `$0`, `$1`, ...; a secret is the first line of the standard input, never an argument.
"""

READ_SECRET = (
    '[ -z "$user" ] || IFS= read -r secret || [ -n "$secret" ] ||'
    ' { echo "no CHAP secret given" >&2; exit 1; };'
)
"""Script that reads the secret into a shell variable; `read` and `printf` are built-in commands, so no argument
contains it."""
SESSIONS = (
    "for session in /sys/class/iscsi_session/session*; do"
    ' [ "$(cat "$session/targetname" 2>/dev/null)" = "$0" ] || continue;'
)
"""Loop over this kernel's iSCSI sessions with the target `$0`."""
OWN_SESSIONS = SESSIONS + ' [ "$(cat "$session/initiatorname" 2>/dev/null)" = "$1" ] || continue;'
"""Loop over the sessions of the initiator name `$1`."""
REFUSE_ISCSI_SESSION = (
    SESSIONS
    + ' echo "this host already has a session with $0, as $(cat "$session/initiatorname"): log out first'
    ' (iscsiadm -m node -T $0 --logout), or use a different target" >&2; exit 1; done;'
    ' [ "$(sed -n "s/^InitiatorName=[[:space:]]*//p" /etc/iscsi/initiatorname.iscsi 2>/dev/null)" != "$1" ] || {'
    ' echo "$1 is the initiator name of this host; give the volume a different \\`initiator\\`" >&2; exit 1; }'
)
"""Script that fails if the host has a session with the target `$0`, or if `$1` is the initiator name of the host."""
START_OWN_ISCSID = (
    "set -e; modprobe -a sd_mod iscsi_tcp; ! grep -q ISCSIADM_ABSTRACT_NAMESPACE /proc/net/unix || exit 0;"
    " mkdir -p /run/lock/iscsi /etc/iscsi; [ -e /etc/iscsi/initiatorname.iscsi ] || {"
    ' : >"$0.named"; echo "InitiatorName=$1" >/etc/iscsi/initiatorname.iscsi; }; iscsid -p "$0"'
)
"""Script that starts open-iscsi's daemon with the PID file `$0`, unless the daemon runs, or systemd starts it on
demand."""
END_OWN_ISCSID = (
    'pid=$(cat "$0" 2>/dev/null); if [ -n "$pid" ] && tr "\\0" "\\n" <"/proc/$pid/cmdline" 2>/dev/null'
    ' | grep -qxF "$0"; then kill "$pid"; tries=0; while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 60 ]; do'
    ' tries=$((tries + 1)); sleep 0.05; done; kill -KILL "$pid" 2>/dev/null; fi;'
    ' [ ! -e "$0.named" ] || rm -f /etc/iscsi/initiatorname.iscsi; rm -f "$0" "$0.named"'
)
"""Script that stops the daemon with the PID file `$0`, and removes the host's file with the initiator name if
`START_OWN_ISCSID` made that file."""
PRIVATE_RECORDS = (
    ' for db in /etc/iscsi /var/lib/iscsi; do [ -d "$db" ] || continue;'
    ' mount -t tmpfs -o mode=700 iolab "$db"; mkdir "$db/nodes" "$db/ifaces"; done;'
    " iscsiadm -m iface -I iolab -o new >/dev/null;"
    ' iscsiadm -m iface -I iolab -o update -n iface.initiatorname -v "$initiator" >/dev/null;'
)
"""Script that gives iscsiadm records in a file system in memory, in a mount namespace that ends with the script: the
host's records are neither read nor changed. `$initiator` is the name for logins."""
LOGIN_EXISTING = (
    "target=$0 portal=$1 initiator=$2 unit=$3 user=$4; "
    + READ_SECRET
    + ' export target portal initiator user; printf "%s\\n" "$secret" | unshare --mount sh -c \'set -e;'
    " IFS= read -r secret || true;"
    + PRIVATE_RECORDS
    + ' node="iscsiadm -m node -T $target -p $portal -I iolab"; $node -o new >/dev/null;'
    ' set_value() { $node -o update -n "$1" -v "$2"; }; set_value node.startup manual;'
    ' set_value node.session.scan manual; set_value node.session.timeo.replacement_timeout "$0";'
    ' set_value "node.conn[0].timeo.noop_out_interval" "$1"; set_value "node.conn[0].timeo.noop_out_timeout" "$2";'
    ' if [ -n "$user" ]; then set_value node.session.auth.authmethod CHAP;'
    ' set_value node.session.auth.username "$user";'
    ' record=$(grep -rls "^node.name = " /etc/iscsi/nodes /var/lib/iscsi/nodes || true);'
    ' printf "node.session.auth.password = %s\\n" "$secret" >>"$record"; fi; $node --login >/dev/null\''
    ' "$5" "$6" "$7" || exit 1; '
    + OWN_SESSIONS.replace('"$0"', '"$target"').replace('"$1"', '"$initiator"')
    + ' host=$(readlink -f "$session/device"); host=${host%/session*};'
    ' echo "- - $unit" >"/sys/class/scsi_host/${host##*/}/scan"; done'
)
"""Script that logs in to the target `$0` at the portal `$1` as `$2`, and scans only the LUN `$3`; `$4` is the CHAP user
(empty: none), the others are replacement_timeout, noop_out_interval and noop_out_timeout."""
LOGOUT_EXISTING = (
    SESSIONS.replace("continue;", 'continue; found=1; done; [ -n "$found" ] || exit 0; ', 1)
    + "initiator=$1 unshare --mount sh -c 'export initiator;"
    + PRIVATE_RECORDS
    + " "
    + OWN_SESSIONS
    + ' iscsiadm -m session -r "${session##*/session}" --logout >/dev/null; done\' "$0" "$1"; '
    + OWN_SESSIONS
    + " exit 1; done"
)
"""Script that ends the sessions with the target `$0` of the initiator name `$1`, and no others."""
FIND_LUN = (
    OWN_SESSIONS
    + ' for disk in "$session"/device/target*/*:"$2"/block/*; do [ -e "$disk" ] && echo "/dev/${disk##*/}"; done; done'
)
"""Script that prints the disk of the LUN `$2`."""
CONTROLLERS = (
    'for way in /sys/class/nvme/nvme*; do [ "$(cat "$way/subsysnqn" 2>/dev/null)" = "$0" ] || continue;'
)
OWN_CONTROLLERS = CONTROLLERS + ' [ "$(cat "$way/hostnqn" 2>/dev/null)" = "$1" ] || continue;'
REFUSE_NVME_SESSION = (
    CONTROLLERS + ' echo "this host is already connected to $0 (${way##*/}): disconnect it first'
    ' (nvme disconnect -d ${way##*/})" >&2; exit 1; done;'
    ' [ "$(cat /etc/nvme/hostnqn 2>/dev/null)" != "$1" ] || {'
    ' echo "$1 is the NVMe name of this host; give the volume a different \\`initiator\\`" >&2; exit 1; }'
)
CONNECT_EXISTING_NVME = (
    "set -e; modprobe nvme-tcp;"
    ' echo "transport=tcp,traddr=$1,trsvcid=$3,nqn=$0,hostnqn=$2,hostid=$4,ctrl_loss_tmo=$5,keep_alive_tmo=$6,'
    'reconnect_delay=$7" >/dev/nvme-fabrics'
)
DISCONNECT_EXISTING_NVME = OWN_CONTROLLERS + ' echo 1 >"$way/delete_controller"; done'
"""Script that disconnects the controllers of the subsystem `$0` with the host name `$1`, and no others."""
FIND_NAMESPACE = (
    'for disk in /sys/block/nvme*n*; do [ "$(cat "$disk/device/subsysnqn" 2>/dev/null)" = "$0" ] || continue;'
    ' [ "$(cat "$disk/nsid" 2>/dev/null)" = "$1" ] || continue;'
    ' [ "$(cat "$disk/hidden" 2>/dev/null)" = 1 ] || echo "/dev/${disk##*/}"; done'
)
"""Script that prints the disk of the namespace `$1` of the subsystem `$0`."""
CONSENTED = (
    'consented() { identity=$1; for one in $consents; do [ "$one" != "$identity" ] || return 0; done;'
    ' echo "the target reports $identity, and --allow-writes names $consents: check the volume, then give'
    ' --allow-writes $identity" >&2; exit 1; };'
)
NUMBERED = (
    ' [ -n "$serial" ] || { echo "the target reports no serial number for $identity:'
    ' it cannot be written" >&2; exit 1; };'
)
CHECK_DISK = (
    CONSENTED + ' disk=$(readlink -f "$0") identity=$1 consents=$2; disk=${disk##*/};'
    ' if [ -e "/sys/block/$disk/wwid" ]; then serial=$(cat "/sys/block/$disk/wwid"); else'
    ' serial=$(tail -c +5 "/sys/block/$disk/device/vpd_pg80" | tr -d "\\0" | sed "s/^ *//; s/ *$//"); fi;'
    + NUMBERED
    + ' consented "$identity/$serial"'
)
"""Script that fails if the identity of the disk `$0` of the target `$1` is not among the identities in `$2`, which are
separated by spaces."""
CHECK_LUN = (
    CONSENTED
    + " url=$0 initiator=$1 user=$2 identity=$3 consents=$4; "
    + READ_SECRET
    + ' [ -z "$user" ] || export LIBISCSI_CHAP_USERNAME="$user" LIBISCSI_CHAP_PASSWORD="$secret";'
    ' shown=$(iscsi-inq -i "$initiator" -e 1 -c 128 "$url") || exit 1;'
    ' serial=$(printf "%s" "$shown" | sed -n "s/.*\\[ *\\(.*[^ ]\\) *\\].*/\\1/p");'
    + NUMBERED
    + ' consented "$identity/$serial"'
)
"""Script that performs the check of `CHECK_DISK` in user space, for the LUN with the URL `$0`."""
REFUSE_CONTENT = (
    'found=$(wipefs --noheadings --no-act --output TYPE "$0") || exit 1; [ -z "$found" ] || {'
    ' echo "$0 contains" $found": what it holds would be destroyed; give --destroy-data $1 if it may be" >&2; exit 1; }'
)
"""Script that fails if the disk `$0` has a partition table, a file system or another signature."""
CLEAR_CONTENT = (
    'node=$0; disk=$(sh -c "$@") && [ -n "$disk" ] && [ "$disk" = "$(readlink -f "$node")" ] || exit 0;'
    ' wipefs --quiet --all "$disk"'
)
"""Script that removes the signatures of the file system that the lab made on the disk `$0`, if the script `$@` still
finds this disk."""
