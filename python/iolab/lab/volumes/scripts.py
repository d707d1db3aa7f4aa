"""Scripts that start and stop targets, initiators and the programs behind disks; repeated runs are harmless.

Each script gets its arguments as `$0`, `$1`, ...: no value of an experiment is ever inserted in the text of a script.
"""

CONFIGFS = "mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config;"
LIO = (
    "name=$0 initiator=$1 address=$2 file=$3;"
    " top=/sys/kernel/config/target group=$top/iscsi/$name/tpgt_1 store=$top/core/fileio_0/${name##*:};"
)
"""Start of scripts for LIO, whose arguments are the iSCSI names of target and initiator, the address, and the file."""
START_LIO = (
    "set -e; " + LIO + " size=$4 netns=$5 user=$6 secret=$7; shift 7;"
    " modprobe -a target_core_mod target_core_file iscsi_target_mod;"
    + CONFIGFS
    + ' mkdir -p "$store"; echo "fd_dev_name=$file,fd_dev_size=$size" >"$store/control"; echo 1 >"$store/enable";'
    ' mkdir -p "$group/lun/lun_1" "$group/acls/$initiator/lun_1"; ln -s "$store" "$group/lun/lun_1/store";'
    ' ln -s "$group/lun/lun_1" "$group/acls/$initiator/lun_1/store"; echo 0 >"$group/attrib/generate_node_acls";'
    ' if [ -n "$user" ]; then echo 1 >"$group/attrib/authentication";'
    ' printf %s "$user" >"$group/acls/$initiator/auth/userid";'
    ' printf %s "$secret" >"$group/acls/$initiator/auth/password"; else echo 0 >"$group/attrib/authentication"; fi;'
    ' for word; do echo "${word#*=}" >"$group/param/${word%%=*}"; done;'
    ' if [ -n "$netns" ]; then nsenter --net="/run/netns/$netns" mkdir "$group/np/$address:3260";'
    ' else mkdir "$group/np/$address:3260"; fi; echo 1 >"$group/enable"'
)
"""Script that starts an LIO target through configfs: a file, one LUN, one permitted initiator, one address; the target
listens once `np` exists. Further arguments are namespace, CHAP user and secret (empty: none), and parameters as
NAME=VALUE. LIO would include a newline in the secret."""
END_LIO = (
    LIO + ' [ -d "$group" ] && echo 0 >"$group/enable"; rm -f "$group/acls/$initiator/lun_1/store";'
    ' for place in "$group/acls/$initiator/lun_1" "$group/acls/$initiator" "$group/np/$address:3260"; do'
    ' [ ! -d "$place" ] || rmdir "$place"; done;'
    ' rm -f "$group/lun/lun_1/store";'
    ' for place in "$group/lun/lun_1" "$group" "$top/iscsi/$name" "$store" "$top/core/fileio_0"; do'
    ' [ ! -d "$place" ] || rmdir "$place"; done'
)
"""Script that removes the LIO target, in the order that configfs requires."""
SHOW_LIO = (
    'top=/sys/kernel/config/target/iscsi/$0/tpgt_1; cat "$top/acls/$1/info" && for file in "$top"/param/*; do'
    ' echo "${file##*/}=$(cat "$file")"; done'
)
"""Script that shows the sessions and the parameters that the target offers."""
SHOW_LIO_PARAMETER = 'cat "/sys/kernel/config/target/iscsi/$0/tpgt_1/param/$1"'
NVMET = (
    "name=$0 initiator=$1 address=$2 file=$3; top=/sys/kernel/config/nvmet subsystem=$top/subsystems/$name"
    " host=$top/hosts/$initiator port=$top/ports/$4;"
)
"""Start of scripts for nvmet, whose arguments are the NVMe names of subsystem and host, the address, the file, and the
number of the port."""
START_NVMET = (
    "set -e; "
    + NVMET
    + " direct=$5 netns=$6 service=$7; modprobe -a loop nvmet nvmet-tcp;"
    + CONFIGFS
    + ' mkdir "$subsystem" "$host" "$subsystem/namespaces/1"; echo 0 >"$subsystem/attr_allow_any_host";'
    ' ln -s "$host" "$subsystem/allowed_hosts/${host##*/}"; cd "$subsystem/namespaces/1";'
    ' losetup --find --show --direct-io="$direct" "$file" >device_path; echo 1 >enable; mkdir "$port"; cd "$port";'
    ' echo tcp >addr_trtype; echo ipv4 >addr_adrfam; echo "$address" >addr_traddr; echo "$service" >addr_trsvcid;'
    " made=$port/subsystems/${subsystem##*/};"
    ' if [ -n "$netns" ]; then nsenter --net="/run/netns/$netns" ln -s "$subsystem" "$made";'
    ' else ln -s "$subsystem" "$made"; fi'
)
"""Script that starts an nvmet target through configfs: a subsystem with one namespace and one permitted host; the
target listens once the link exists. Further arguments are direct I/O of the file (on, off), the namespace, and the
port. The file is behind a loop device, because nvmet reads a size of 0 for a file on an overlay."""
END_NVMET = (
    NVMET + ' rm -f "$port/subsystems/${subsystem##*/}" "$subsystem/allowed_hosts/${host##*/}";'
    ' for place in "$port" "$subsystem/namespaces/1" "$subsystem" "$host"; do'
    ' [ ! -d "$place" ] || rmdir "$place"; done;'
    ' losetup -n -O NAME -j "$file" | while read -r loop; do losetup -d "$loop"; done'
)
"""Script that removes the nvmet target, in the order that configfs requires."""
END_BY_PID_FILE = (
    'pid=$(cat "$0" 2>/dev/null);'
    ' if [ -n "$pid" ] && tr "\\0" "\\n" <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$0"; then'
    ' kill "$pid"; tries=0; while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 60 ]; do'
    ' tries=$((tries + 1)); sleep 0.05; done; kill -KILL "$pid" 2>/dev/null; fi; rm -f "$0"'
)
"""Script that stops the program that has the PID file `$0` among its arguments."""
START_ISCSID = (
    "set -e; initiator=$0; modprobe -a sd_mod iscsi_tcp; mkdir -p /run/lock/iscsi /etc/iscsi;"
    ' echo "InitiatorName=$initiator" >/etc/iscsi/initiatorname.iscsi; pidof iscsid >/dev/null || iscsid'
)
"""Script that starts open-iscsi's daemon with the given initiator name."""
LOGIN = (
    'set -e; target=$0 portal=$1 user=$2 secret=$3; node="iscsiadm -m node -T $target -p $portal"; $node -o new;'
    ' $node -o update -n node.startup -v manual; $node -o update -n node.session.timeo.replacement_timeout -v "$4";'
    ' $node -o update -n "node.conn[0].timeo.noop_out_interval" -v "$5";'
    ' $node -o update -n "node.conn[0].timeo.noop_out_timeout" -v "$6"; if [ -n "$user" ]; then'
    " $node -o update -n node.session.auth.authmethod -v CHAP;"
    ' $node -o update -n node.session.auth.username -v "$user";'
    ' $node -o update -n node.session.auth.password -v "$secret"; fi; $node --login'
)
"""Script that logs in to the given target at the given portal and no other. Arguments are CHAP user and secret (empty:
none), replacement_timeout, noop_out_interval and noop_out_timeout."""
SHOW_ISCSI_TIMEOUTS = (
    "for session in /sys/class/iscsi_session/session*; do"
    ' [ "$(cat "$session/targetname" 2>/dev/null)" = "$0" ] || continue;'
    ' for line in "$session"/device/connection*/iscsi_connection/*; do'
    ' echo $(cat "$session/recovery_tmo" "$line/recv_tmo" "$line/ping_tmo"); done; done'
)
"""Script that shows the kernel's values of these time-outs in a session with the given target."""
LOGOUT = (
    'iscsiadm -m session 2>/dev/null | grep -qF " $0 " || exit 0; iscsiadm -m node -T "$0" -p "$1" --logout;'
    ' iscsiadm -m node -T "$0" -p "$1" -o delete; ! iscsiadm -m session 2>/dev/null | grep -qF " $0 "'
)
FIND_ISCSI = (
    "for session in /sys/class/iscsi_session/session*; do"
    ' [ "$(cat "$session/targetname" 2>/dev/null)" = "$0" ] || continue;'
    ' for disk in "$session"/device/target*/*:1/block/*; do [ -e "$disk" ] && echo "/dev/${disk##*/}"; done; done'
)
"""Script that prints the disk of a session with the given target."""
CONNECT_NVME = (
    "set -e; modprobe nvme-tcp;"
    ' echo "transport=tcp,traddr=$1,trsvcid=$3,nqn=$0,hostnqn=$2,ctrl_loss_tmo=$4,keep_alive_tmo=$5,reconnect_delay=$6"'
    " >/dev/nvme-fabrics"
)
SHOW_NVME_TIMEOUTS = (
    'for way in /sys/class/nvme/nvme*; do [ "$(cat "$way/subsysnqn" 2>/dev/null)" = "$0" ] || continue;'
    ' echo $(cat "$way/ctrl_loss_tmo" "$way/kato" "$way/reconnect_delay"); done'
)
DISCONNECT_NVME = (
    'for way in /sys/class/nvme/nvme*; do [ "$(cat "$way/subsysnqn" 2>/dev/null)" = "$0" ] || continue;'
    ' echo 1 >"$way/delete_controller"; done'
)
FIND_NVME = (
    "for disk in /sys/block/nvme*n*; do"
    ' [ "$(cat "$disk/device/subsysnqn" 2>/dev/null)" = "$0" ] || continue;'
    ' [ "$(cat "$disk/hidden" 2>/dev/null)" = 1 ] || echo "/dev/${disk##*/}"; done'
)
"""Script that prints the disk of a subsystem."""
CONNECT_NBD = (
    'set -e; modprobe nbd; for disk in /sys/block/nbd*; do [ ! -e "$disk/pid" ] || continue;'
    ' nbd-client -N "$0" -t "$4" "$1" "$3" "/dev/${disk##*/}" >&2; echo "${disk##*/}" >"$2"; exit 0; done;'
    ' echo "every nbd device is in use" >&2; exit 1'
)
"""Script that connects to an export at an address and a port (`$3`), with a time-out for requests (`$4`); the name of
the device is stored in the file `$2`."""
SHOW_NBD_TIMEOUT = 'disk=$(cat "$0") && echo $(($(cat "/sys/block/$disk/queue/io_timeout") / 1000))'
DISCONNECT_NBD = (
    '[ ! -e "$0" ] || { d=/dev/$(cat "$0"); blockdev --setrw "$d"; nbd-client -d "$d" >&2; rm -f "$0"; }'
)
FIND_NBD = (
    'disk=$(cat "$0" 2>/dev/null); [ -n "$disk" ] && [ -e "/sys/block/$disk/pid" ] && echo "/dev/$disk"'
)
AWAIT_DISK = (
    'tries=0; until found=$(sh -c "$0" "$@") && [ -n "$found" ] && [ "$(blockdev --getsize64 "$found")" != 0 ]; do'
    ' tries=$((tries + 1)); [ "$tries" -le 200 ] || { echo "no disk of $1 has come within 20 s" >&2; exit 1; };'
    " sleep 0.1; done"
)
"""Script that waits until the script `$0` prints a disk: kernels detect disks in the background."""
SHOW_NEGOTIATED = (
    "for session in /sys/class/iscsi_session/session*; do"
    ' [ "$(cat "$session/targetname" 2>/dev/null)" = "$0" ] || continue;'
    " for one in FirstBurstLength=first_burst_len MaxBurstLength=max_burst_len InitialR2T=initial_r2t"
    ' ImmediateData=immediate_data; do echo "${one%%=*}=$(cat "$session/${one#*=}")"; done;'
    ' for line in "$session"/device/connection*/iscsi_connection/*; do'
    " for one in MaxRecvDataSegmentLength=max_recv_dlength MaxXmitDataSegmentLength=max_xmit_dlength"
    ' HeaderDigest=header_digest DataDigest=data_digest; do echo "${one%%=*}=$(cat "$line/${one#*=}")"; done; done;'
    " done"
)
"""Script that shows the negotiated parameters of an open-iscsi session (sysfs), under their iSCSI names."""
PATIENCE = 'tries=$((tries + 1)); [ "$tries" -le 200 ]'
"""Loop that polls every 50 ms, at most 200 times, because the programs of targets and initiators do not report when
they are ready."""
START_TARGET = (
    'export TGT_IPC_SOCKET="$0"; setsid tgtd -f --iscsi "portal=$1" >"$0.log" 2>&1 </dev/null & echo $! >"$0.pid";'
    " tries=0; until tgtadm --op show --mode sys >/dev/null 2>&1; do"
    f' {PATIENCE} && kill -0 "$(cat "$0.pid")" 2>/dev/null'
    ' || { echo "tgtd does not answer:" >&2; cat "$0.log" >&2; exit 1; }; sleep 0.05; done'
)
"""Script that starts tgtd with its control socket at `$0`, listening only at `$1`."""
END_TARGET = (
    'export TGT_IPC_SOCKET="$0"; [ -e "$0.pid" ] || exit 0; pid=$(cat "$0.pid");'
    ' if tr "\\0" "\\n" <"/proc/$pid/environ" 2>/dev/null | grep -qxF "TGT_IPC_SOCKET=$0"; then'
    " ! timeout -k 1 2 tgtadm --op show --mode sys >/dev/null 2>&1 || {"
    " timeout -k 1 3 tgtadm --op delete --force --mode target --tid 1 2>/dev/null;"
    " timeout -k 1 3 tgtadm --op delete --mode system 2>/dev/null;"
    ' tries=0; while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 20 ]; do tries=$((tries + 1)); sleep 0.05; done; };'
    ' kill -KILL "$pid" 2>/dev/null; fi; rm -f "$0.0" "$0.0.lock" "$0.log" "$0.pid"'
)
"""Script that stops this tgtd, which its control socket identifies, and no other process. tgtd ignores SIGTERM; an
unresponsive tgtd is killed at once."""
SHOW_TARGET = 'TGT_IPC_SOCKET="$0" tgtadm --op show --mode target --tid 1 | sed -n "s/^$1=//p"'
"""Script that shows one parameter that the target offers."""
SHOW_OFFER = (
    'export TGT_IPC_SOCKET="$0";'
    " tgtadm --op show --mode conn --tid 1 && tgtadm --op show --mode target --tid 1"
)
"""Script that shows the sessions and the parameters that the target offers. tgt does not show the negotiated parameters
of a session."""
SHOW_PROCESS = (
    'pid=$(cat "$0" 2>/dev/null) && IFS= read -r line 2>/dev/null <"/proc/$pid/stat" || { echo ended; exit 0; };'
    ' line=${line##*) }; case $line in [TtZX]*) echo "state ${line%% *}" ;; *) echo runs ;; esac'
)
"""Script that shows the state of the process in the PID file `$0`: runs, ended, or its state if it is stopped (T) or a
zombie (Z)."""
KILL_SERVER = (
    'pid=$(cat "$0" 2>/dev/null) && [ -n "$pid" ] || exit 0;'
    ' cat "/proc/$pid/cmdline" "/proc/$pid/environ" 2>/dev/null | tr "\\0" "\\n" | grep -qxF "$1" || exit 0;'
    ' kill -KILL "$pid"'
)
"""Script that kills the process in the PID file `$0` if `$1` is a word in its command line or environment. SIGKILL also
ends a stopped process."""
END_DAEMON = (
    'end_daemon() { pid=$(cat "$1.pid" 2>/dev/null); [ -n "$pid" ] || return 0;'
    ' tr "\\0" "\\n" <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$1.pid" || return 0;'
    ' kill "$pid"; tries=0; while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt "$2" ]; do'
    ' tries=$((tries + 1)); sleep 0.05; done; kill -KILL "$pid" 2>/dev/null; return 0; };'
)
"""Script that stops the storage daemon with the export file `$1`, identified by the PID file among its arguments, and
kills it after `$2` times 50 ms."""
WITHIN = (
    'within() { door=$1; shift; "$@" & pending=$!; waited=0; while kill -0 "$pending" 2>/dev/null; do'
    ' waited=$((waited + 1)); sleep 0.05; [ "$waited" -ne 60 ] || end_daemon "$door" 0; done; wait "$pending"; };'
)
"""Script that runs a command with a time limit: if the storage behind a disk is lost, programs that use the disk would
wait forever. After 3 s, the script kills the storage daemon with the export file `$1`; writes in progress then fail."""
END_INITIATOR = (
    END_DAEMON
    + ' end_daemon "$0" 60; grep -qF " $0 " /proc/self/mountinfo && umount -l "$0"; rm -f "$0" "$0.pid" "$1"'
)
"""Script that stops the storage daemon with the export file `$0`, and removes the export file and its monitor `$1`."""
REFUSE_EXISTING = (
    '[ ! -e "$0" ] && [ ! -L "$0" ] || { echo "$0 exists already ($(stat -c "%F of user %u" "$0")), and this lab did'
    ' not make it: end the lab that uses it, remove it if no lab does, or give the volume another name" >&2; exit 1; }'
)
"""Script that fails if `$0` exists; it precedes the command that creates `$0` and has no undo, so a file of someone
else is neither used nor removed."""
MAKE_DOOR = 'set -C; umask 077; : >"$0"'
"""Script that creates an empty file for this user only; it fails if the file exists, and leaves it unchanged."""
ATTACH = '"/proc/$PPID/exe" attach "$0"'
"""Script that attaches a loop device to the export file `$0`; the agent is the parent process of the script."""
DETACH = (
    END_DAEMON + WITHIN + " for place in /sys/block/loop*/loop/backing_file; do"
    ' [ -e "$place" ] && [ "$(cat "$place")" = "$0" ] || continue;'
    ' loop=${place#/sys/block/}; loop=/dev/${loop%%/*}; blockdev --setrw "$loop"; within "$0" losetup -d "$loop"; done'
)
"""Script that detaches all loop devices on a file, even if no server provides the file any more. The script makes a
read-only loop device writable again, because the device would stay read-only for its next file."""
SHOW_BACKING = (
    'loop=$(readlink -f "$0") && IFS= read -r file <"/sys/class/block/${loop##*/}/loop/backing_file"'
    ' && printf "%s\\n" "$file"'
)
"""Script that shows the backing file of the loop device of node `$0`."""
UNMOUNT = (
    END_DAEMON + WITHIN + ' if grep -qF " $0 " /proc/self/mountinfo; then'
    ' within "$1" umount "$0" || umount -l "$0" || exit 1; fi;'
    ' [ ! -e "$0" ] || rmdir "$0"'
)
"""Script that unmounts `$0`, on a disk with the export file `$1`, and removes the mount point."""
