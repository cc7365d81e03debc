// Package machine says what of the machine's memory and disks is free, in words, too, and how long its
// processors have worked.
package machine

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A Disk is the file system that a folder is on.
type Disk struct {
	ID   uint64 // the same for folders on the same file system
	Free int    // bytes that this user can have
}

// FreeMemory returns the bytes of memory that this process can have, and whether
// the system tells: Linux does, and its control groups may allow less.
func FreeMemory() (int, bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	free, ok := available(text)
	if limit, limited := groupMemory("/proc/self/cgroup", "/sys/fs/cgroup"); limited {
		free = min(free, limit)
	}
	return free, ok
}

// available reads MemAvailable of /proc/meminfo.
func available(text []byte) (int, bool) {
	_, after, _ := bytes.Cut(text, []byte("MemAvailable:"))
	fields := strings.Fields(string(after))
	if len(fields) == 0 {
		return 0, false
	}
	kilobytes, err := strconv.Atoi(fields[0])
	return kilobytes << 10, err == nil
}

// groupMemory returns what the control group of the process, and those that it
// is in, leave of their limits (cgroup v2: memory.max, memory.current, and in
// memory.stat what of that the kernel gives back).
func groupMemory(self, root string) (least int, limited bool) {
	text, err := os.ReadFile(self)
	if err != nil {
		return 0, false
	}
	_, group, found := strings.Cut(strings.TrimSpace(string(text)), "0::")
	if !found {
		return 0, false
	}
	group, _, _ = strings.Cut(group, "\n")
	for dir := filepath.Join(root, group); len(dir) >= len(root); dir = filepath.Dir(dir) {
		limit, err := number(filepath.Join(dir, "memory.max"))
		if err != nil {
			continue // "max", or no such file in the root
		}
		used, err := number(filepath.Join(dir, "memory.current"))
		if err != nil {
			continue
		}
		free := limit - used + cached(filepath.Join(dir, "memory.stat"))
		if !limited || free < least {
			least, limited = max(free, 0), true
		}
	}
	return least, limited
}

func number(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// cached returns the bytes of files that are kept in memory as long as nobody
// needs it.
func cached(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	sum := 0
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "inactive_file" || name == "active_file" {
			n, _ := strconv.Atoi(value)
			sum += n
		}
	}
	return sum
}
