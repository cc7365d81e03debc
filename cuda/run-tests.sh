#!/bin/sh
# Runs the test binaries beside it and prints a summary. Arguments go to the
# binaries, as -test.run TestDevice/Norm; TOOL runs them, as "compute-sanitizer
# --tool memcheck"; LOGS is where the whole output goes.
cd "$(dirname "$0")" || exit
logs=${LOGS:-.}
status=0
for binary in ./*.test; do
    log=$logs/$(basename "$binary").log
    start=$(date +%s)
    $TOOL "$binary" -test.v "$@" >"$log" 2>&1
    code=$?
    [ $code -eq 0 ] || status=1
    echo "$binary: exit $code, $(grep -c -e '--- PASS' "$log") passed, $(grep -c -e '--- FAIL' "$log") failed, $(grep -c -e '--- SKIP' "$log") skipped, $(($(date +%s) - start)) s"
    grep -v -e '^=== ' -e '--- PASS' -e '^PASS' "$log" | head -200
done
exit $status
