package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"exl2/internal/regular"
)

// findModel returns the folder of a model: the folder of that name, or, for a
// name like org/name, the snapshot in the local Hugging Face cache that
// refs/main points to. Nothing is downloaded.
func findModel(name string) (string, error) {
	if info, err := os.Stat(name); err == nil {
		if strings.HasSuffix(name, ".gguf") {
			return "", fmt.Errorf("model %s: GGUF is not read; give the folder of the original model, as safetensors", name)
		}
		if !info.IsDir() {
			return "", fmt.Errorf("model %s: not a folder; give the folder that holds config.json", name)
		}
		return name, checkModel(name)
	}
	org, model, ok := strings.Cut(name, "/")
	if !ok || org == "" || model == "" || strings.ContainsAny(model, `/\`) || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("model %s: no such folder", name)
	}
	folder := filepath.Join(cacheFolder(), "models--"+org+"--"+model)
	ref, err := regular.Read(filepath.Join(folder, "refs", "main"), 1<<20)
	if err != nil {
		return "", fmt.Errorf("model %s: no such folder, and not in the Hugging Face cache (%s); nothing is downloaded", name, cacheFolder())
	}
	snapshot := filepath.Join(folder, "snapshots", filepath.Base(strings.TrimSpace(string(ref))))
	if _, err := os.Stat(snapshot); err != nil {
		return "", fmt.Errorf("model %s: the Hugging Face cache names a snapshot that is not there: %w", name, err)
	}
	return snapshot, checkModel(snapshot)
}

// cacheFolder returns where the Hugging Face libraries keep models.
func cacheFolder() string {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "."
	}
	return filepath.Join(home, ".cache", "huggingface", "hub")
}
