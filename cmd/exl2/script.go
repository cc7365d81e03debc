package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"exl2/infer"
)

// script replaces one of ExLlamaV2's programs by the command that does its
// work: with `alias python=exl2` a shell history runs as it stands.
func script(args []string) ([]string, error) {
	if len(args) > 1 && args[0] == "-m" { // a module of Python's
		module := args[1][strings.LastIndexByte(args[1], '.')+1:]
		args = append([]string{module + ".py"}, args[2:]...)
	}
	if len(args) == 0 {
		return args, nil
	}
	program := args[0][strings.LastIndexAny(args[0], `/\`)+1:]
	switch program {
	case "convert.py", "convert_exl2.py":
		return append([]string{"convert"}, args[1:]...), nil
	case "test_inference.py":
		return testInference(args[1:])
	case "chat.py":
		return nil, usage("%s is not there; use exl2 infer -m MODEL --chat", program)
	}
	if strings.HasSuffix(program, ".py") {
		return nil, usage("%s is not there; convert.py and test_inference.py are: see exl2 --help", program)
	}
	return args, nil
}

// Tasks of test_inference.py, by the flags that ask for them.
var tasks = map[string]string{
	"-ed": "ppl", "--eval-dataset": "ppl", "-sp": "ppl", "--standard-perplexity": "ppl",
	"-p": "infer", "--prompt": "infer",
	"-ps": "bench", "--prompt-speed": "bench", "-s": "bench", "--speed": "bench",
}

// testInference returns the command for what test_inference.py was asked for.
// That program does all tasks that it is given, here each is a command.
func testInference(args []string) ([]string, error) {
	command := ""
	for _, a := range args {
		name, _, _ := strings.Cut(strings.ReplaceAll(a, "_", "-"), "=")
		task := tasks[name]
		if task == "" || task == command {
			continue
		}
		if command != "" {
			return nil, usage("test_inference.py with several tasks: give one at a time; exl2 ppl is -ed, exl2 infer is -p, exl2 bench is -s and -ps")
		}
		command = task
	}
	switch command {
	case "":
		command = "infer"
	case "bench":
		return speedTest(args)
	}
	return append([]string{command}, args...), nil
}

// test_inference.py measures at lengths of 128, 256, ... up to the context; here
// they double, up to speedContext without -l.
const (
	speedFirst   = 128
	speedContext = 2048
)

// speedTest returns the bench command for -ps, the speed of prompts of growing
// lengths, and -s, that of generation behind growing depths.
func speedTest(args []string) ([]string, error) {
	out := []string{"bench"}
	prompts, generates, depths := "0", "0", "0"
	context := speedContext
	var wanted []string
	for i := 0; i < len(args); i++ {
		switch a := strings.ReplaceAll(args[i], "_", "-"); a {
		case "-ps", "--prompt-speed", "-s", "--speed":
			wanted = append(wanted, strings.TrimLeft(a, "-"))
		case "-l", "--length":
			i++
			n, err := strconv.Atoi(strings.Join(args[min(i, len(args)):min(i+1, len(args))], ""))
			if err != nil || n < 2*speedFirst || n > infer.MaxPositions {
				return nil, usage("%s: want a number of positions, %d to %d", a, 2*speedFirst, infer.MaxPositions)
			}
			context = n
		default:
			out = append(out, args[i])
		}
	}
	if slices.ContainsFunc(wanted, func(w string) bool { return w[0] == 'p' }) {
		prompts = doubling(speedFirst, context)
	}
	if slices.ContainsFunc(wanted, func(w string) bool { return w[0] == 's' }) {
		generates, depths = strconv.Itoa(speedFirst), "0,"+doubling(speedFirst, context-speedFirst)
	}
	return append(out, "--prompt="+prompts, "--generate="+generates, "--depth="+depths), nil
}

// doubling lists first, twice that and so on up to last, which ends the list.
func doubling(first, last int) string {
	list := ""
	for n := first; n < last; n *= 2 {
		list += fmt.Sprintf("%d,", n)
	}
	return list + strconv.Itoa(last)
}
