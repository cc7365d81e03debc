package safetensors

import (
	"fmt"
	"math"
)

// A Shard is one file of a model that is to be written.
type Shard struct {
	Name    string // of the file, without folder
	Tensors []Info // in the order of the model
}

// Plan cuts the tensors of a model, in their order, into files of at most
// limit bytes of data; 0 is no limit. A tensor larger than the limit has a
// file of its own. One file is named base.safetensors, several are named
// base-00001-of-000NN.safetensors. No tensors make no file.
func Plan(base string, tensors []Info, limit int64) ([]Shard, error) {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	var shards []Shard
	var room int64
	for _, t := range tensors {
		size, err := t.Bytes()
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(t.Name), err)
		}
		if size > room || len(shards) == 0 {
			shards = append(shards, Shard{})
			room = limit
		}
		last := &shards[len(shards)-1]
		last.Tensors = append(last.Tensors, t)
		room -= min(size, room)
	}
	for i := range shards {
		shards[i].Name = shardName(base, i, len(shards))
	}
	return shards, nil
}

func shardName(base string, i, count int) string {
	if count == 1 {
		return base + extension
	}
	return fmt.Sprintf("%s-%05d-of-%05d%s", base, i+1, count, extension)
}
