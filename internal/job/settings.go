package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"exl2/internal/regular"
)

// A Setting is something that must not change between the runs of a job.
type Setting struct {
	Flag  string `json:"flag"`
	Value string `json:"value"`
}

// Settings are what a job's results depend on. What the first phase depends on
// stands first in job.json, and alone until a run asks for the rest.
type Settings struct {
	// Algorithm is the version of what makes results of settings; other
	// versions make others.
	Algorithm   int
	First, Rest []Setting
}

// written is what job.json holds.
type written struct {
	Algorithm int       `json:"algorithm"`
	Settings  []Setting `json:"settings"`
}

// Begun reports whether there is a job to be continued. One whose settings are gone is
// not a new one: what was first written behind them depends on them.
func (j *Job) Begun() bool {
	if j.there(settingsName) {
		return true
	}
	list := j.list.all()
	first := slices.IndexFunc(list, func(e entry) bool { return e.Name == settingsName })
	return first >= 0 && slices.ContainsFunc(list, func(e entry) bool {
		before := slices.ContainsFunc(list[:first+1], func(b entry) bool { return b.Name == e.Name })
		return !before && inside(e.Name) && j.there(e.Name)
	})
}

func (j *Job) there(name string) bool {
	_, err := os.Lstat(j.Path(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Compare refuses settings that are not those of the job that is there.
func (j *Job) Compare(want Settings) error {
	have, err := j.settings(want.Algorithm)
	if err != nil {
		return err
	}
	n := len(want.First)
	if len(have) < n {
		return j.Damaged(settingsName, errors.New("settings are missing"))
	}
	if err := j.compare(have[:n], want.First); err != nil || len(have) == n {
		return err
	}
	return j.compare(have[n:], want.Rest)
}

// settings reads job.json.
func (j *Job) settings(algorithm int) ([]Setting, error) {
	if j.list.damage != nil {
		return nil, j.Damaged(listName, j.list.damage)
	}
	data, err := regular.ReadOwn(j.Path(settingsName))
	if err != nil {
		return nil, j.Damaged(settingsName, err)
	}
	var w written
	var old *json.UnmarshalTypeError // the first versions wrote a list
	if err := json.Unmarshal(data, &w); (err == nil || errors.As(err, &old)) && w.Algorithm != algorithm {
		return nil, fmt.Errorf("%w: the job in %s was started by a version of this program with algorithm %d, this one has %d; finish it with that version, give another --out-dir, or --restart to begin again",
			ErrRefused, filepath.Dir(j.dir), w.Algorithm, algorithm)
	}
	if err := j.MustReadJSON(settingsName, &w); err != nil {
		return nil, err
	}
	for i := range w.Settings {
		w.Settings[i].Value = Unescape(w.Settings[i].Value)
	}
	return w.Settings, nil
}

// compare refuses settings that differ from the job's.
func (j *Job) compare(have, want []Setting) error {
	for i, w := range want {
		if i >= len(have) || have[i].Flag != w.Flag {
			return j.Damaged(settingsName, fmt.Errorf("%s is missing", w.Flag))
		}
		if have[i].Value != w.Value {
			return fmt.Errorf("%w: the job in %s was started with another value of %s: %q, not %q; give the same again, another --out-dir, or --restart to begin again",
				ErrRefused, filepath.Dir(j.dir), w.Flag, have[i].Value, w.Value)
		}
	}
	return nil
}

// Settle writes the settings, which Compare accepts or which begin a job, unless
// they stand there.
func (j *Job) Settle(want Settings) error {
	if j.Begun() {
		have, err := j.settings(want.Algorithm)
		if err != nil || len(have) > len(want.First) || len(want.Rest) == 0 {
			return err
		}
	}
	list := slices.Concat(want.First, want.Rest)
	for i := range list {
		list[i].Value = Escape(list[i].Value)
	}
	return j.WriteJSON(settingsName, written{want.Algorithm, list})
}
