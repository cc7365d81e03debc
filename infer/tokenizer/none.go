package tokenizer

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// foreign are the files of tokenizers that are not read.
var foreign = []struct{ file, what string }{
	{"tekken.json", "tekken.json, which Mistral's own programs read"},
	{"vocab.json", "vocab.json and merges.txt"},
	{"spiece.model", "spiece.model"},
	{"sentencepiece.bpe.model", "sentencepiece.bpe.model"},
	{"vocab.txt", "vocab.txt, of WordPiece"},
}

// none is about a folder in which there is nothing to read.
func none(dir string) error {
	err := fmt.Errorf("%s: no tokenizer.json and no tokenizer.model: %w", dir, fs.ErrNotExist)
	for _, f := range foreign {
		if _, missing := os.Stat(filepath.Join(dir, f.file)); missing == nil {
			return fmt.Errorf("%w; %s: %w; put beside it the tokenizer.json that transformers writes (save_pretrained)", err, f.what, ErrUnsupported)
		}
	}
	return err
}
