package calib

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"exl2/internal/regular"
)

// foreign are beginnings of files that are often taken for text.
var foreign = []struct{ magic, what string }{
	{"\x1f\x8b", "a gzip file: unpack it first"},
	{"\x28\xb5\x2f\xfd", "a zstd file: unpack it first"},
	{"\xfd7zXZ\x00", "an xz file: unpack it first"},
	{"BZh", "a bzip2 file: unpack it first"},
	{"PK\x03\x04", "a zip file: unpack it first"},
	{"ARROW1", "an Arrow file: write it again as Parquet"},
	{"PARE", "an encrypted Parquet file"},
	{regular.PointerHead, regular.ErrPointer.Error()},
	{"\xff\xfe", "UTF-16 text: convert it to UTF-8"},
	{"\xfe\xff", "UTF-16 text: convert it to UTF-8"},
}

// Plain returns a text that was read whole, without the mark that may stand in front of it. What begins as
// files do that are no text, or has a byte of 0, is an error; whether it is UTF-8 throughout is not looked at.
func Plain(data []byte) (string, error) {
	if err := checkText(data, "not text"); err != nil {
		return "", err
	}
	return strings.TrimPrefix(string(data), regular.ByteOrderMark), nil
}

// checkText refuses the head of a file that is no text: one that is known by its beginning, or one with a byte of 0; none is what that is called.
func checkText(head []byte, none string) error {
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return errors.New(f.what)
		}
	}
	if i := bytes.IndexByte(head, 0); i >= 0 {
		return fmt.Errorf("%s: byte %d is 0", none, i)
	}
	return nil
}
