// Package devices opens the processors that models are run and converted on, by
// the names that users give them. It is the only one that knows which there are.
package devices

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"exl2/cuda"
	"exl2/internal/device"
	"exl2/internal/device/cpu"
)

// Names says what a list of devices can be.
const Names = "cpu, GPU numbers as 0,1, or all (default: the first GPU, else the CPU)"

// What is suggested when a GPU's memory runs out: running a model, and quantizing, for which
// there was room when it began.
const (
	remedy    = "a shorter context or fewer sequences need less, more --devices share the layers, --devices cpu uses the machine's memory"
	quantizes = "end other programs that use it; a conversion takes less with --low-memory"
)

// A List is devices that share the layers of a model, in their order.
type List []device.Device

// Close closes the devices.
func (l List) Close() {
	for _, d := range l {
		d.Close()
	}
}

// Check refuses names that cannot be of devices.
func Check(names string) error {
	_, err := parse(names)
	return err
}

// Open opens the devices of a list. Without names that is the first GPU, or,
// where there is none, the CPU; note, which may be nil, is told why.
func Open(names string, note func(text string)) (List, error) {
	numbers, err := parse(names)
	if err != nil {
		return nil, err
	}
	switch {
	case names == "cpu":
		return CPU()
	case names == "all":
		numbers, err = all()
	case names == "":
		numbers = []int{0}
	}
	var list List
	if err == nil {
		list, err = open(numbers)
	}
	if errors.Is(err, cuda.ErrNoDevice) && (names == "" || names == "all") {
		if note != nil {
			note(fmt.Sprintf("computing on the CPU: %v", err))
		}
		return CPU()
	}
	if err != nil && names != "" {
		err = fmt.Errorf("--devices %s: %w", names, err)
	}
	return list, err
}

// OpenQuantizers opens the devices that convert models, which compute the same bits:
// GPUs of one type, or the CPU.
func OpenQuantizers(names string, note func(text string)) ([]device.Quantize, error) {
	list, err := Open(names, note)
	if err != nil {
		return nil, err
	}
	return list.quantizers(names)
}

// quantizers returns the devices of names as such, or closes them.
func (l List) quantizers(names string) ([]device.Quantize, error) {
	var all []device.Quantize
	for _, d := range l {
		q, ok := d.(device.Quantize)
		if !ok {
			l.Close()
			return nil, &NamesError{names, d.Name() + " does not quantize; give one that does"}
		}
		if d.Name() != l[0].Name() {
			l.Close()
			return nil, &NamesError{names, fmt.Sprintf("%s and %s differ in the last bits of what they compute; give devices of one type", l[0].Name(), d.Name())}
		}
		if gpu, ok := d.(*cuda.Device); ok {
			gpu.Remedy = quantizes
		}
		all = append(all, q)
	}
	return all, nil
}

// OpenQuantizer opens the one device that quantizes a matrix.
func OpenQuantizer(names string, note func(text string)) (device.Quantize, error) {
	all, err := OpenQuantizers(names, note)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 {
		for _, d := range all {
			d.Close()
		}
		return nil, &NamesError{names, "one device quantizes a matrix; give one"}
	}
	return all[0], nil
}

// CPU opens the CPU.
func CPU() (List, error) {
	d, err := cpu.New()
	if err != nil {
		return nil, err
	}
	return List{d}, nil
}

// GPUs opens every GPU.
func GPUs() (List, error) {
	numbers, err := all()
	if err != nil {
		return nil, err
	}
	return open(numbers)
}

// all returns the numbers of all GPUs.
func all() ([]int, error) {
	n, err := cuda.Count()
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers, err
}

// open opens GPUs.
func open(numbers []int) (List, error) {
	var list List
	for _, n := range numbers {
		d, err := cuda.Open(n)
		if err != nil {
			list.Close()
			return nil, err
		}
		d.Remedy = remedy
		list = append(list, d)
	}
	return list, nil
}

// A NamesError is about a list that cannot name devices, whatever the machine
// has.
type NamesError struct{ Names, Want string }

func (e *NamesError) Error() string { return fmt.Sprintf("--devices %s: %s", e.Names, e.Want) }

// parse returns the numbers of a list of GPUs, each of which may occur once.
func parse(names string) ([]int, error) {
	if names == "" || names == "cpu" || names == "all" {
		return nil, nil
	}
	var numbers []int
	seen := map[int]bool{}
	for _, text := range strings.Split(names, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 0 || seen[n] {
			return nil, &NamesError{names, "want cpu, all or different numbers of GPUs, as 0,1"}
		}
		seen[n] = true
		numbers = append(numbers, n)
	}
	return numbers, nil
}
