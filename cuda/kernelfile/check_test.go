package kernelfile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"
)

// An image with one section of code, of some operations.
func machineCode(t *testing.T, kernel string, operations ...uint64) []byte {
	var code, names bytes.Buffer
	for _, op := range operations {
		code.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 0xabcd<<16|op), 0x0003e8000b981800))
	}
	names.WriteString("\x00.text." + kernel + "\x00.shstrtab\x00")
	const header, section = 64, 64
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: 190, Version: 129, Ehsize: header, Shentsize: section, Shnum: 3, Shstrndx: 2, Shoff: uint64(header + code.Len() + names.Len())}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var out bytes.Buffer
	write := func(v any) {
		if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	write(h)
	write(code.Bytes())
	write(names.Bytes())
	write(elf.Section64{})
	write(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: header, Size: uint64(code.Len())})
	write(elf.Section64{Name: uint32(len(".text."+kernel) + 2), Type: uint32(elf.SHT_STRTAB), Off: uint64(header + code.Len()), Size: uint64(names.Len())})
	return out.Bytes()
}

func TestCheck(t *testing.T) {
	const copies, illegal, other = 0xfae, 0xdae, 0x210
	for _, c := range []struct {
		name  string
		image []byte
		want  string
	}{
		{"PTX", []byte(".version 8.8\n.target compute_80"), ""},
		{"no code", machineCode(t, "none"), ""},
		{"copies as they should be", machineCode(t, "good", other, copies, copies), ""},
		{"one that is not", machineCode(t, "bad", other, copies, illegal), "bad: instruction 0x20 is a copy"},
		{"half a file", machineCode(t, "half", other)[:70], "machine code: "},
		{"half a header", machineCode(t, "half", other)[:30], "machine code of 30 bytes has no header"},
	} {
		err := Check(c.image)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
