package ptx

import (
	"encoding/binary"
	"fmt"
)

// A Memory is that of a GPU. Addresses of an allocation begin at a multiple of 2^32, so that what is
// read or written beside it is found out.
type Memory struct {
	blocks [][]byte
	host   map[uint64][]byte // by address
}

// Lend lets kernels read and write memory of the host, at an address below First.
func (m *Memory) Lend(address uint64, b []byte) {
	if m.host == nil {
		m.host = map[uint64][]byte{}
	}
	m.host[address] = b
}

// lent returns n bytes of what the host has lent, or nil.
func (m *Memory) lent(address uint64, n int) []byte {
	for at, b := range m.host {
		if address >= at && address+uint64(n) <= at+uint64(len(b)) {
			return b[address-at:][:n]
		}
	}
	return nil
}

// First is where addresses begin; those of the host are below.
const First = 1 << 60

const blockBits = 32

// parts returns which allocation an address is of, and which byte.
func parts(address uint64) (i, at uint64) {
	return address>>blockBits - First>>blockBits, address & (1<<blockBits - 1)
}

// Alloc returns the address of n bytes, which are not zero.
func (m *Memory) Alloc(n int) uint64 {
	block := make([]byte, n)
	for i := range block {
		block[i] = 0xa5
	}
	m.blocks = append(m.blocks, block)
	return First + uint64(len(m.blocks)-1)<<blockBits
}

// Free ends an allocation.
func (m *Memory) Free(address uint64) {
	i, _ := parts(address)
	m.blocks[i] = nil
}

// Bytes returns n bytes from an address on.
func (m *Memory) Bytes(address uint64, n int) ([]byte, error) {
	if address < First {
		if b := m.lent(address, n); b != nil {
			return b, nil
		}
	}
	i, at := parts(address)
	if i >= uint64(len(m.blocks)) || at+uint64(n) > uint64(len(m.blocks[i])) {
		size := 0
		if i < uint64(len(m.blocks)) {
			size = len(m.blocks[i])
		}
		if address < First {
			return nil, fmt.Errorf("%d bytes at %#x are outside of memory", n, address)
		}
		return nil, fmt.Errorf("%d bytes at %#x are outside of memory: byte %d of allocation %d, which has %d", n, address, at, i, size)
	}
	return m.blocks[i][at : at+uint64(n)], nil
}

// Windows are where in generic addresses other memory is.
const (
	sharedWindow = 0xf1 << 56
	localWindow  = 0xf2 << 56
	paramWindow  = 0xf3 << 56
	windows      = 0xff << 56
)

// bytes returns n bytes of a space, "" being generic, and panics where there are none.
func (t *thread) bytes(space string, address uint64, n int) []byte {
	if address%uint64(n) != 0 {
		panic(fmt.Errorf("%d bytes at %#x are not aligned", n, address))
	}
	var all []byte
	if space == "" {
		switch address & windows {
		case sharedWindow:
			space, address = "shared", address&^windows
		case localWindow:
			space, address = "local", address&^windows
		case paramWindow:
			space, address = "param", address&^windows
		}
	}
	switch space {
	case "shared":
		all = t.block.shared
		address &= 1<<32 - 1
	case "local":
		all = t.local
	case "param":
		all = t.block.params
	default:
		b, err := t.block.memory.Bytes(address, n)
		if err != nil {
			panic(err)
		}
		return b
	}
	if address+uint64(n) > uint64(len(all)) {
		panic(fmt.Errorf("%d bytes at %#x are outside of %s memory of %d", n, address, space, len(all)))
	}
	return all[address : address+uint64(n)]
}

func get(b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func put(b []byte, v uint64) {
	switch len(b) {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// A transfer is a copy to shared memory that is on its way until it is waited for.
type transfer struct {
	to, from uint64
	n, real  int // bytes, of which those behind are zeros
}

// arrive has all but the last few batches arrive.
func (t *thread) arrive(but int) {
	for len(t.batches) > but {
		for _, c := range t.batches[0] {
			to := t.bytes("shared", c.to, c.n)
			clear(to)
			if c.real > 0 {
				from, err := t.block.memory.Bytes(c.from, c.real)
				if err != nil {
					panic(err)
				}
				copy(to, from)
			}
		}
		t.batches = t.batches[1:]
	}
}
