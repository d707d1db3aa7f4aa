"""What is run on a kernel that is profiled: perf, and what makes its file small before it goes over a wire.

The folder of the profile is $0.
"""

RECORD = """
event=$2
if [ "$event" = auto ]; then
    event=cpu-clock
    for pmu in /sys/bus/event_source/devices/cpu* /sys/bus/event_source/devices/armv8*; do
        [ -e "$pmu/type" ] && perf stat -e cycles -x, true 2>&1 | grep -q '^[0-9]' && event=cycles
    done
fi
echo "sampling $event"
exec perf record -q -a -g -F "$1" -e "$event" --max-size="$3"B -o "$0/perf.data"
"""
"""Samples every CPU until it is ended."""
RECORD_LOCKS = """
echo sampling
exec perf record -q -a -g -e lock:contention_begin -e lock:contention_end --max-size="$1"B -o "$0/locks.data"
"""
FOLD = r"""
perf script -i "$0/perf.data" --show-lost-events -F comm,tid,time,ip,sym,dso 2>"$0/said" | awk '
    function flush() {
        if (thread != "" && stack != "") counts[thread ";" stack]++
        thread = ""; stack = ""
    }
    function plain(text) { gsub(/;/, ":", text); sub(/^[\t ]+/, "", text); return text }
    /PERF_RECORD_LOST/ { lost += $NF; next }
    /^\t/ {
        object = $NF; name = $0
        kernel = object ~ /^\(\[(kernel|k|guest\.kernel)/ || $1 ~ /^ffff/
        sub(/^[\t ]*[0-9a-f]+ /, "", name); sub(/ \([^()]*\)$/, "", name); name = plain(name)
        gsub(/^\(|\)$/, "", object); sub(/.*\//, "", object); gsub(/^\[|\]$/, "", object)
        if (name == "[unknown]") name = kernel ? "[kernel]" : "[" object "]"
        else if (kernel) name = name "_[k]"
        stack = stack == "" ? name : name ";" stack
        next
    }
    /^$/ { flush(); next }
    {
        flush(); thread = $0; at = $NF; sub(/:$/, "", at)
        if (first == "") first = at
        last = at
        sub(/ +[0-9.]+: *$/, "", thread); sub(/ +[0-9]+$/, "", thread); thread = plain(thread)
    }
    END {
        flush(); printf "# %d %.0f\n", lost, (last - first) * 1e9
        for (each in counts) print counts[each] "\t" each
    }
' | {
    IFS= read -r head && printf "%s\n" "$head"
    sort -k1,1nr | head -c 900000
}
[ -s "$0/perf.data" ] || { cat "$0/said" >&2; exit 1; }
"""
"""Prints how many samples were lost and what time they span [ns], then how many each stack has, the commonest first."""
LOCKS = r"""
perf lock contention -i "$0/locks.data" 2>&1 | head -n 200
"""
