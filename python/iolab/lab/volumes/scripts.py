"""Scripts that start and end targets, initiators and the programs behind disks; harmless when repeated.

Each gets its words as `$0`, `$1`, ...: nothing of an experiment is ever part of a script's text.
"""

CONFIGFS = "mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config;"
LIO = (
    "name=$0 initiator=$1 address=$2 file=$3;"
    " top=/sys/kernel/config/target group=$top/iscsi/$name/tpgt_1 store=$top/core/fileio_0/${name##*:};"
)
"""iSCSI names of target and initiator, address, file."""
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
"""LIO by configfs: a file, one LUN, one initiator in the list, one address; it listens where `np` is made. Then
namespace, user and secret of CHAP (empty: none), and parameters as NAME=VALUE. LIO takes a new line for a part of a
secret."""
END_LIO = (
    LIO + ' [ -d "$group" ] && echo 0 >"$group/enable"; rm -f "$group/acls/$initiator/lun_1/store";'
    ' for place in "$group/acls/$initiator/lun_1" "$group/acls/$initiator" "$group/np/$address:3260"; do'
    ' [ ! -d "$place" ] || rmdir "$place"; done;'
    ' rm -f "$group/lun/lun_1/store";'
    ' for place in "$group/lun/lun_1" "$group" "$top/iscsi/$name" "$store" "$top/core/fileio_0"; do'
    ' [ ! -d "$place" ] || rmdir "$place"; done'
)
"""Takes all of it away, in the order that configfs wants."""
SHOW_LIO = (
    'top=/sys/kernel/config/target/iscsi/$0/tpgt_1; cat "$top/acls/$1/info" && for file in "$top"/param/*; do'
    ' echo "${file##*/}=$(cat "$file")"; done'
)
"""Shows who is logged in, and what the target offers."""
SHOW_LIO_PARAMETER = 'cat "/sys/kernel/config/target/iscsi/$0/tpgt_1/param/$1"'
NVMET = (
    "name=$0 initiator=$1 address=$2 file=$3; top=/sys/kernel/config/nvmet subsystem=$top/subsystems/$name"
    " host=$top/hosts/$initiator port=$top/ports/$4;"
)
"""NVMe names of subsystem and host, address, file, number of the port."""
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
"""nvmet by configfs: a subsystem with one namespace and one host in the list; it listens where it is linked. Then
whether it passes its host's page cache (on, off), the namespace, and the port. The file is behind a loop device: nvmet
takes the size of a file on an overlay for 0."""
END_NVMET = (
    NVMET + ' rm -f "$port/subsystems/${subsystem##*/}" "$subsystem/allowed_hosts/${host##*/}";'
    ' for place in "$port" "$subsystem/namespaces/1" "$subsystem" "$host"; do'
    ' [ ! -d "$place" ] || rmdir "$place"; done;'
    ' losetup -n -O NAME -j "$file" | while read -r loop; do losetup -d "$loop"; done'
)
"""Takes all of it away, in the order that configfs wants."""
END_BY_PID_FILE = (
    'pid=$(cat "$0" 2>/dev/null);'
    ' if [ -n "$pid" ] && tr "\\0" "\\n" <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$0"; then'
    ' kill "$pid"; tries=0; while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 60 ]; do'
    ' tries=$((tries + 1)); sleep 0.05; done; kill -KILL "$pid" 2>/dev/null; fi; rm -f "$0"'
)
"""Ends the program that has the pid file `$0` among its arguments."""
START_ISCSID = (
    "set -e; initiator=$0; modprobe -a sd_mod iscsi_tcp; mkdir -p /run/lock/iscsi /etc/iscsi;"
    ' echo "InitiatorName=$initiator" >/etc/iscsi/initiatorname.iscsi; pidof iscsid >/dev/null || iscsid'
)
"""open-iscsi's daemon, under this name."""
LOGIN = (
    'set -e; target=$0 portal=$1 user=$2 secret=$3; node="iscsiadm -m node -T $target -p $portal"; $node -o new;'
    ' $node -o update -n node.startup -v manual; $node -o update -n node.session.timeo.replacement_timeout -v "$4";'
    ' $node -o update -n "node.conn[0].timeo.noop_out_interval" -v "$5";'
    ' $node -o update -n "node.conn[0].timeo.noop_out_timeout" -v "$6"; if [ -n "$user" ]; then'
    " $node -o update -n node.session.auth.authmethod -v CHAP;"
    ' $node -o update -n node.session.auth.username -v "$user";'
    ' $node -o update -n node.session.auth.password -v "$secret"; fi; $node --login'
)
"""Logs in to this target at this portal and to no other; user and secret of CHAP, empty: none. Then
replacement_timeout, noop_out_interval and noop_out_timeout."""
SHOW_ISCSI_TIMEOUTS = (
    "for session in /sys/class/iscsi_session/session*; do"
    ' [ "$(cat "$session/targetname" 2>/dev/null)" = "$0" ] || continue;'
    ' for line in "$session"/device/connection*/iscsi_connection/*; do'
    ' echo $(cat "$session/recovery_tmo" "$line/recv_tmo" "$line/ping_tmo"); done; done'
)
"""Shows the same of a session with this target, as the kernel has them."""
LOGOUT = (
    'iscsiadm -m session 2>/dev/null | grep -qF " $0 " || exit 0; iscsiadm -m node -T "$0" -p "$1" --logout;'
    ' iscsiadm -m node -T "$0" -p "$1" -o delete; ! iscsiadm -m session 2>/dev/null | grep -qF " $0 "'
)
FIND_ISCSI = (
    "for session in /sys/class/iscsi_session/session*; do"
    ' [ "$(cat "$session/targetname" 2>/dev/null)" = "$0" ] || continue;'
    ' for disk in "$session"/device/target*/*:1/block/*; do [ -e "$disk" ] && echo "/dev/${disk##*/}"; done; done'
)
"""Prints the disk of a session with this target."""
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
"""Prints the disk of a subsystem."""
CONNECT_NBD = (
    'set -e; modprobe nbd; for disk in /sys/block/nbd*; do [ ! -e "$disk/pid" ] || continue;'
    ' nbd-client -N "$0" -t "$4" "$1" "$3" "/dev/${disk##*/}" >&2; echo "${disk##*/}" >"$2"; exit 0; done;'
    ' echo "every nbd device is in use" >&2; exit 1'
)
"""Connects to an export at an address and a port (`$3`), with a timeout of requests (`$4`); `$2` keeps which device it
is."""
SHOW_NBD_TIMEOUT = 'disk=$(cat "$0") && echo $(($(cat "/sys/block/$disk/queue/io_timeout") / 1000))'
DISCONNECT_NBD = '[ ! -e "$0" ] || { nbd-client -d "/dev/$(cat "$0")" >&2; rm -f "$0"; }'
FIND_NBD = (
    'disk=$(cat "$0" 2>/dev/null); [ -n "$disk" ] && [ -e "/sys/block/$disk/pid" ] && echo "/dev/$disk"'
)
AWAIT_DISK = (
    'tries=0; until found=$(sh -c "$0" "$@") && [ -n "$found" ] && [ "$(blockdev --getsize64 "$found")" != 0 ]; do'
    ' tries=$((tries + 1)); [ "$tries" -le 200 ] || { echo "no disk of $1 has come within 20 s" >&2; exit 1; };'
    " sleep 0.1; done"
)
"""Waits until the script `$0` prints a disk: kernels look for them in the background."""
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
"""Shows what a session of open-iscsi has agreed on (sysfs), in the protocol's words."""
PATIENCE = 'tries=$((tries + 1)); [ "$tries" -le 200 ]'
"""These programs say nothing when they are ready: 200 looks, 50 ms apart."""
START_TARGET = (
    'export TGT_IPC_SOCKET="$0"; setsid tgtd -f --iscsi "portal=$1" >"$0.log" 2>&1 </dev/null & echo $! >"$0.pid";'
    " tries=0; until tgtadm --op show --mode sys >/dev/null 2>&1; do"
    f' {PATIENCE} && kill -0 "$(cat "$0.pid")" 2>/dev/null'
    ' || { echo "tgtd does not answer:" >&2; cat "$0.log" >&2; exit 1; }; sleep 0.05; done'
)
"""tgtd with its control socket at `$0`, listening at `$1` alone."""
END_TARGET = (
    'export TGT_IPC_SOCKET="$0"; [ -e "$0.pid" ] || exit 0; pid=$(cat "$0.pid");'
    ' if tr "\\0" "\\n" <"/proc/$pid/environ" 2>/dev/null | grep -qxF "TGT_IPC_SOCKET=$0"; then'
    " ! timeout -k 1 2 tgtadm --op show --mode sys >/dev/null 2>&1 || {"
    " timeout -k 1 3 tgtadm --op delete --force --mode target --tid 1 2>/dev/null;"
    " timeout -k 1 3 tgtadm --op delete --mode system 2>/dev/null;"
    ' tries=0; while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 20 ]; do tries=$((tries + 1)); sleep 0.05; done; };'
    ' kill -KILL "$pid" 2>/dev/null; fi; rm -f "$0.0" "$0.0.lock" "$0.log" "$0.pid"'
)
"""Ends that tgtd and no other process: it is known by its control socket. It does not end at SIGTERM; one
that hangs is killed at once."""
SHOW_TARGET = 'TGT_IPC_SOCKET="$0" tgtadm --op show --mode target --tid 1 | sed -n "s/^$1=//p"'
"""Shows one parameter that the target offers."""
SHOW_OFFER = (
    'export TGT_IPC_SOCKET="$0";'
    " tgtadm --op show --mode conn --tid 1 && tgtadm --op show --mode target --tid 1"
)
"""Shows who is logged in, and what the target offers. tgt does not show what each session has agreed on."""
SHOW_PROCESS = (
    'pid=$(cat "$0" 2>/dev/null) && IFS= read -r line 2>/dev/null <"/proc/$pid/stat" || { echo ended; exit 0; };'
    ' line=${line##*) }; case $line in [TtZX]*) echo "state ${line%% *}" ;; *) echo runs ;; esac'
)
"""Shows how the process of the pid file `$0` is: runs, ended, or its state where it is stopped (T) or a zombie (Z)."""
KILL_SERVER = (
    'pid=$(cat "$0" 2>/dev/null) && [ -n "$pid" ] || exit 0;'
    ' cat "/proc/$pid/cmdline" "/proc/$pid/environ" 2>/dev/null | tr "\\0" "\\n" | grep -qxF "$1" || exit 0;'
    ' kill -KILL "$pid"'
)
"""Kills the process of the pid file `$0`, if `$1` is a word of its command line or environment. SIGKILL also ends one
that is stopped."""
END_DAEMON = (
    'end_daemon() { pid=$(cat "$1.pid" 2>/dev/null); [ -n "$pid" ] || return 0;'
    ' tr "\\0" "\\n" <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$1.pid" || return 0;'
    ' kill "$pid"; tries=0; while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt "$2" ]; do'
    ' tries=$((tries + 1)); sleep 0.05; done; kill -KILL "$pid" 2>/dev/null; return 0; };'
)
"""Ends the storage daemon whose door is `$1`, known by its pid file among its arguments; kills it after `$2` times
50 ms."""
WITHIN = (
    'within() { door=$1; shift; "$@" & pending=$!; waited=0; while kill -0 "$pending" 2>/dev/null; do'
    ' waited=$((waited + 1)); sleep 0.05; [ "$waited" -ne 60 ] || end_daemon "$door" 0; done; wait "$pending"; };'
)
"""Runs a command. Where a store is gone, what waits for it would wait for ever: after 3 s the storage daemon whose door
is `$1` is killed, and what is not written fails."""
END_INITIATOR = (
    END_DAEMON
    + ' end_daemon "$0" 60; grep -qF " $0 " /proc/self/mountinfo && umount -l "$0"; rm -f "$0" "$0.pid" "$1"'
)
"""Ends the storage daemon whose door is `$0`, and takes the door and its monitor `$1` away."""
REFUSE_EXISTING = (
    '[ ! -e "$0" ] && [ ! -L "$0" ] || { echo "$0 exists already ($(stat -c "%F of user %u" "$0")), and this lab did'
    ' not make it: end the lab that uses it, remove it if no lab does, or give the volume another name" >&2; exit 1; }'
)
"""Comes before what makes `$0`, and has no undo: what another made is neither used nor removed."""
MAKE_DOOR = 'set -C; umask 077; : >"$0"'
"""An empty file of this user alone; what is there already stays, and this fails."""
ATTACH = '"/proc/$PPID/exe" attach "$0"'
"""Attaches a loop device to the door `$0`; the process above is the agent."""
DETACH = (
    END_DAEMON + WITHIN + " for place in /sys/block/loop*/loop/backing_file; do"
    ' [ -e "$place" ] && [ "$(cat "$place")" = "$0" ] || continue;'
    ' loop=${place#/sys/block/}; within "$0" losetup -d "/dev/${loop%%/*}"; done'
)
"""Gives back every loop device on a file, also on one that nobody serves any more."""
SHOW_BACKING = (
    'loop=$(readlink -f "$0") && IFS= read -r file <"/sys/class/block/${loop##*/}/loop/backing_file"'
    ' && printf "%s\\n" "$file"'
)
"""Shows the file to which the loop device of the node `$0` is attached."""
UNMOUNT = (
    END_DAEMON + WITHIN + ' if grep -qF " $0 " /proc/self/mountinfo; then'
    ' within "$1" umount "$0" || umount -l "$0" || exit 1; fi;'
    ' [ ! -e "$0" ] || rmdir "$0"'
)
"""Unmounts `$0`, on a disk whose door is `$1`, and takes the place away."""
