package regular

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"exl2/internal/ordered"
)

// maxJSON bounds the size of JSON files beside a model's weights.
const maxJSON = 16 << 20

// OptionalJSON reads a JSON file into v, which stays as it is if there is no such
// file.
func OptionalJSON(path string, v any) error {
	data, err := Read(path, maxJSON)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(ordered.FromPython(data, ordered.Tagged), v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
