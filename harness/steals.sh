#!/usr/bin/env bash
# Who takes cores from the game: plays a scenario with a policy, watches the system's
# scheduler for some seconds with perf (root, Linux), and prints how often a thread of
# the lowest class got the core of a thread of ordinary class that wanted to go on, and
# for how long it kept it. docs/limits.md says what that means.
#
#     harness/steals.sh [SCENARIO [POLICY [SECONDS]]]      default: cpu-bound-120 idle-2 5
set -euo pipefail
cd "$(dirname "$0")/.."
scenario=${1:-cpu-bound-120} policy=${2:-idle-2} seconds=${3:-5}
command -v perf >/dev/null || { echo "steals.sh: perf is missing: apt-get install linux-perf" >&2; exit 1; }
[ -x bin/lull ] || { echo "steals.sh: bin/lull is missing: make build" >&2; exit 1; }
tmp=$(mktemp -d)
trap 'kill "$player" 2>/dev/null || true; rm -rf "$tmp"' EXIT

bin/lull harness run "$scenario" --policy "$policy" --repeat 1 --seconds $((seconds + 10)) \
    >"$tmp/report" 2>"$tmp/notes" &
player=$!
# The policy's run begins after those without a game, with "POLICY 1/1" in the notes.
until grep -q "$policy 1/1" "$tmp/notes"; do
    kill -0 "$player" 2>/dev/null || { cat "$tmp/notes" >&2; exit 1; }
    sleep 0.2
done
sleep 4 # the model loads, the reply begins
perf record -q -a -e sched:sched_switch -o "$tmp/data" -- sleep "$seconds"
ps -L -o tid=,cls= -p "$player" | awk '$2 == "IDL" {print $1}' >"$tmp/low"
ps -L -o tid=,cls= -p "$player" | awk '$2 == "TS" {print $1}' >"$tmp/ordinary"
wait "$player" || true

perf script -i "$tmp/data" -F cpu,time,trace 2>/dev/null | awk -v seconds="$seconds" '
    FILENAME == ARGV[1] {low[$1] = 1; next}
    FILENAME == ARGV[2] {ordinary[$1] = 1; next}
    {
        cpu = substr($1, 2, 3); now = $2 + 0
        match($0, /prev_pid=[0-9]+/); from = substr($0, RSTART + 9, RLENGTH - 9)
        match($0, /next_pid=[0-9]+/); to = substr($0, RSTART + 9, RLENGTH - 9)
        if (to in waits) {
            ms = (now - waits[to]) * 1000
            n++; sum += ms; if (ms > 1) long_++; if (ms > most) most = ms
            delete waits[to]
        }
        if ((from in ordinary) && (to in low) && $0 ~ /prev_state=R/) waits[from] = now
    }
    END {
        printf "%d times in %d s a thread of the lowest class got the core of one of ordinary class that wanted it\n",
            n, seconds
        printf "%.1f ms in all, %d times for more than 1 ms, %.1f ms at most\n", sum, long_, most
    }' "$tmp/low" "$tmp/ordinary" -
grep -A1 "late frames" "$tmp/report" | cut -c1-110
