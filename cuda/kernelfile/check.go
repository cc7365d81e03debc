package kernelfile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
)

// Check reports an instruction of machine code that no GPU takes. ptxas 12.9 makes it of an asynchronous copy to
// shared memory with a policy of the L2 cache where part of the address is the same in all lanes and it adds that in the
// instruction: an H200 says "illegal instruction". PTX is not looked at.
func Check(image []byte) error {
	const (
		size      = 16    // bytes of an instruction
		operation = 0xfff // its lowest bits
		uniform   = 0xdae // LDGSTS with part of an address in a uniform register
	)
	const header, version = 64, 20 // bytes; where the file has its version, which NVIDIA has its own for
	if !bytes.HasPrefix(image, []byte(elf.ELFMAG)) {
		return nil
	}
	if len(image) < header {
		return fmt.Errorf("machine code of %d bytes has no header", len(image))
	}
	image = bytes.Clone(image)
	binary.LittleEndian.PutUint32(image[version:], uint32(elf.EV_CURRENT))
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return fmt.Errorf("machine code: %w", err)
	}
	for _, s := range f.Sections {
		kernel, is := strings.CutPrefix(s.Name, ".text.")
		if !is {
			continue
		}
		code, err := s.Data()
		if err != nil {
			return fmt.Errorf("%s: %w", kernel, err)
		}
		for at := 0; at+size <= len(code); at += size {
			if binary.LittleEndian.Uint64(code[at:])&operation == uniform {
				return fmt.Errorf("%s: instruction %#x is a copy to shared memory that no GPU takes; have the address made in a register, as own_address of qmatmul_rows.cu does", kernel, at)
			}
		}
	}
	return nil
}
