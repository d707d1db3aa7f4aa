"""Scripts that start and end the programs behind exports and disks, each with what is harmless when repeated.

Each gets its words as `$0`, `$1`, ...: nothing of an experiment is ever part of a script's text.
"""

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
