"""Texts that `sh -c` runs for files and services. `$0` is the place below which all that is of one lies."""

WRITE_FILE = 'umask 077; mkdir -p "${0%/*}" && printf %s "$1" >"$0" && chmod 644 "$0" && chmod 755 "${0%/*}"'
"""Writes `$1` into `$0`, in a folder of its own; services may run as other users and read it."""
DELETE_FILE = 'rm -f "$0"; rmdir "${0%/*}" 2>/dev/null; true'
"""Takes the file away, and its folder with the last one."""
MARK = "IOLAB_SERVICE"
"""In the environment of every service: what has it is the service, or was left by it."""
MARKED = f'marked() {{ grep -lsz "^{MARK}=$0\\$" /proc/[0-9]*/environ | cut -d/ -f3; }};'
LISTENS = (
    'listens() { port=$(printf %04X "$1");'
    ' grep -qsE "^ *[0-9]+: [0-9A-F]+:$port [0-9A-F]+:0000 $2 " "$3" "${3}6"; };'
)
"""Whether a socket of the network namespace has this port, in this state, in this table of the kernel."""
READY = (
    " ready() { case $kind in"
    ' tcp) listens "$value" 0A /proc/net/tcp;;'
    ' udp) listens "$value" 07 /proc/net/udp;;'
    ' prints) grep -qsF -- "$value" "$0.log";;'
    ' succeeds) sh -c "$value" >/dev/null 2>&1;;'
    ' *) [ -e "$0.pid" ];; esac; };'
)
START_SERVICE = (
    MARKED
    + LISTENS
    + READY
    + ' kind=$1 value=$2 end=$(($(date +%s) + $3)); shift 3; umask 077; mkdir -p "${0%/*}";'
    + f' {MARK}="$0" setsid sh -c \'echo $$ >"$0.pid";'
    + ' "$@" 2>&1 </dev/null | { dd bs=1024 count=4096 2>/dev/null; exec cat >/dev/null; } >"$0.log"\' "$0" "$@" &'
    + ' until ready; do why="is not ready";'
    + ' [ "$(date +%s)" -lt "$end" ] && { [ ! -e "$0.pid" ] || [ -n "$(marked)" ] || { why="has ended"; false; }; }'
    + ' || { echo "it $why; it wrote:" >&2; tail -c 1000 "$0.log" >&2; exit 1; }; sleep 0.05; done'
)
"""Starts a service in a session of its own and waits until it is ready: `$1` says by what, `$2` which, `$3` for
how many seconds it waits. At most 4 MiB of what it writes are kept."""
SESSION = (
    ' members() { [ -z "$leader" ] || grep -lsE "^[0-9]+ [(].*[)] [^ZX] [0-9]+ [0-9]+ $leader " /proc/[0-9]*/stat'
    " | cut -d/ -f3; };"
)
"""What runs in the session of a service. nginx overwrites its environment with its title, and has no mark then."""
END_SERVICE = (
    MARKED
    + SESSION
    + ' leader=; pid=$(cat "$0.pid" 2>/dev/null); if [ -n "$pid" ] && marked | grep -x "$pid" >/dev/null;'
    + ' then leader=$pid; kill -TERM -- "-$pid" 2>/dev/null; fi;'
    + ' begin=$(date +%s); while left=$(members; marked); [ -n "$left" ]; do'
    + ' spent=$(($(date +%s) - begin)); [ "$spent" -le 5 ] || break;'
    + ' [ -n "$leader" ] && [ "$spent" -le 2 ] || kill -KILL $left 2>/dev/null; sleep 0.05; done;'
    + ' rm -f "$0.pid" "$0.log"; rmdir "${0%/*}" 2>/dev/null; true'
)
"""Ends a service: it has two to three seconds after SIGTERM. Then what it left is killed, and its end waited for: the
next one needs the port. By the clock, not by tries: one takes a second in an emulated guest on a busy computer."""
SHOW_SERVICE = MARKED + ' [ -z "$(marked)" ] || echo running'
"""Tells whether anything of it runs."""
CHECK = '"$@" >/dev/null 2>&1 && echo holds'
"""Tells whether a command succeeds."""
