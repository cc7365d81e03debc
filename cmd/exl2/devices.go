package main

import (
	"fmt"
	"strconv"
	"strings"
)

// splitDevices sets --devices as ExLlamaV2's --gpu-split says: auto is all GPUs,
// a list has the gigabytes that each is to hold.
func (a *app) splitDevices() error {
	switch {
	case a.split == "":
		return nil
	case a.split == "auto":
		a.devices = "all"
		return nil
	}
	var numbers []string
	for i, text := range strings.Split(a.split, ",") {
		size, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(size >= 0) {
			return usage("--gpu-split: %q, want auto or gigabytes for every GPU, as 17,24", a.split)
		}
		if size > 0 {
			numbers = append(numbers, strconv.Itoa(i))
		}
	}
	if len(numbers) == 0 {
		return usage("--gpu-split %s: no GPU has any; give --devices cpu", a.split)
	}
	a.devices = strings.Join(numbers, ",")
	a.note(fmt.Sprintf("--gpu-split %s is --devices %s here: layers are shared evenly, sizes are not looked at", a.split, a.devices))
	return nil
}
