package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"exl2/cuda"
	"exl2/internal/device"
	"exl2/internal/device/cpu"
)

// remedy is what the program suggests when a GPU's memory runs out.
const remedy = "a smaller --length or --batch needs less, more --devices share the layers, --devices cpu uses the machine's memory"

// open opens the devices that the flags ask for: without any, the first GPU, or
// the CPU and a line that says why.
func (a *app) open() ([]device.Device, error) {
	switch a.devices {
	case "cpu":
		return a.openCPU()
	case "":
		d, err := cuda.Open(0)
		if errors.Is(err, cuda.ErrNoDevice) {
			fmt.Fprintf(a.err, "note: computing on the CPU: %v\n", err)
			return a.openCPU()
		}
		return a.opened(d, err)
	case "all":
		list, err := a.openGPUs()
		if errors.Is(err, cuda.ErrNoDevice) {
			fmt.Fprintf(a.err, "note: computing on the CPU: %v\n", err)
			return a.openCPU()
		}
		return list, err
	}
	numbers, err := gpuNumbers(a.devices)
	if err != nil {
		return nil, err
	}
	var list []device.Device
	for _, n := range numbers {
		d, err := cuda.Open(n)
		if _, err := a.opened(d, err); err != nil {
			return nil, fmt.Errorf("--devices %s: %w", a.devices, err)
		}
		list = append(list, d)
	}
	return list, nil
}

// openQuantizer opens the device that quantizes: the first GPU, or the CPU.
func (a *app) openQuantizer() (device.Quantize, error) {
	list, err := a.open()
	if err != nil {
		return nil, err
	}
	if len(list) > 1 {
		return nil, usage("--devices %s: one device converts; give one", a.devices)
	}
	return list[0].(device.Quantize), nil
}

func (a *app) openCPU() ([]device.Device, error) {
	d, err := cpu.New()
	if err != nil {
		return nil, err
	}
	a.closes = append(a.closes, func() { d.Close() })
	return []device.Device{d}, nil
}

// opened prepares a GPU.
func (a *app) opened(d *cuda.Device, err error) ([]device.Device, error) {
	if err != nil {
		return nil, err
	}
	d.Remedy = remedy
	a.closes = append(a.closes, func() { d.Close() })
	return []device.Device{d}, nil
}

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
	fmt.Fprintf(a.err, "note: --gpu-split %s is --devices %s here: layers are shared evenly, sizes are not looked at\n", a.split, a.devices)
	return nil
}

// gpuNumbers parses a list of GPU numbers, each of which may occur once.
func gpuNumbers(list string) ([]int, error) {
	var numbers []int
	seen := map[int]bool{}
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 0 || seen[n] {
			return nil, usage("--devices: %q, want cpu, all or different numbers of GPUs, as 0,1", list)
		}
		seen[n] = true
		numbers = append(numbers, n)
	}
	return numbers, nil
}
