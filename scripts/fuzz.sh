#!/bin/sh
# Runs every fuzz target for a while (FUZZTIME, a minute if not set). What they
# find is kept under testdata/fuzz and becomes a case of `make test`. Minimizing
# inputs is kept short: it is what a slow target spends its time on otherwise.
set -eu
go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r package dir; do
    for target in $(grep -ho '^func Fuzz[A-Za-z0-9]*' "$dir"/*_test.go 2>/dev/null | sed 's/^func //'); do
        echo "$package $target"
        go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-60s}" -fuzzminimizetime 10x
    done
done
