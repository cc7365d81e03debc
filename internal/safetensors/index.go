package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"exl2/internal/regular"
)

// maxIndex bounds what is read of an index; real ones stay below 20 MB.
const maxIndex = 100 << 20

// A placement says which file of the folder holds a tensor.
type placement struct{ tensor, shard string }

// readIndex reads the weight_map of an index, in its order.
func readIndex(path string) ([]placement, error) {
	data, err := regular.Read(path, maxIndex)
	if err != nil {
		return nil, err
	}
	index, err := parseIndex(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return index, nil
}

func parseIndex(data []byte) ([]placement, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", regular.InWords(err))
	}
	weights, ok := parts["weight_map"]
	if !ok {
		return nil, errors.New("weight_map is missing")
	}
	var index []placement
	s := &scanner{data: weights}
	err := s.object("an object", func(tensor string) error {
		shard, err := s.text("a file name")
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quote(tensor), err)
		}
		if !plainName(shard) {
			return fmt.Errorf("tensor %s: %s is not the name of a safetensors file in the folder", quote(tensor), quote(shard))
		}
		index = append(index, placement{tensor, shard})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("weight_map: %w", err)
	}
	if len(index) == 0 {
		return nil, errors.New("weight_map is empty")
	}
	return index, nil
}

// plainName tells whether a shard's name stays within the folder.
func plainName(name string) bool {
	return strings.HasSuffix(name, extension) && !strings.ContainsAny(name, "/\\\x00")
}
