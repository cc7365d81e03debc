package main

import (
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"exl2/internal/fold/foldtest"
)

// plant DIR FROM writes a model with outliers that change nothing of what it computes.
func plant(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: plant DIR FROM")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o777))
	ts.Check(foldtest.Plant(args[1], dir, foldtest.Norms))
}
