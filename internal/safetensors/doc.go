// Package safetensors reads and writes the safetensors format: eight bytes
// with the length of a JSON header, the header, and the bytes of the tensors
// without gaps, little-endian. https://huggingface.co/docs/safetensors
//
// The nouns: an [Info] is what a header says of a tensor (name, type, shape);
// a [Tensor] is an Info with its bytes. A [File] is one file open for reading,
// mapped into memory when its first tensor is asked for; a [Set] is the
// tensors of a model folder, whatever number of files holds them. A [Writer]
// makes one file whose tensors were declared beforehand, and [Plan] cuts a
// list of declarations into the [Shard] files of a model.
//
// Everything a file says is checked before it is believed. Errors are of one
// line and name the file, the tensor and the field.
package safetensors
