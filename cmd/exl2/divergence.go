package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"exl2/internal/regular"
)

// A point is a model in the picture of divergences.
type point struct {
	label string  // its target
	bytes int64   // of its files
	kl    float64 // mean, nats
}

// A series is the points of one program.
type series struct {
	name   string
	points []point
}

// ours is the name of what was measured in this run.
const ours = "exl2"

// measured makes a series of results; each is labeled with the target that its
// config.json says, or its folder. A model at no distance has no place on a
// logarithmic scale and is left out.
func measured(results []pplResult) (series, error) {
	s := series{name: ours}
	for _, r := range results {
		if r.KL.Mean < leastKL {
			continue
		}
		var config struct {
			Quantization struct {
				Bits float64 `json:"bits"`
			} `json:"quantization_config"`
		}
		if err := regular.OptionalJSON(filepath.Join(r.Model, "config.json"), &config); err != nil {
			return series{}, err
		}
		label := filepath.Base(r.Model)
		if b := config.Quantization.Bits; b > 0 {
			label = fmt.Sprintf("%.1f bpw", b)
			if b != math.Round(b*10)/10 {
				label = fmt.Sprintf("%v bpw", b)
			}
		}
		s.points = append(s.points, point{label, r.fileBytes, r.KL.Mean})
	}
	return s, nil
}

// pointsHeader is the first line of a file of other programs' points.
var pointsHeader = []string{"program", "label", "file_bytes", "kl"}

// readPoints reads the points of other programs.
func readPoints(path string) ([]series, error) {
	data, err := regular.ReadFile(path, 16<<20)
	if err != nil {
		return nil, fmt.Errorf("--points: %w", err)
	}
	list, err := parsePoints(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("--points %s: %w", path, err)
	}
	return list, nil
}

// parsePoints reads CSV with a header; a program's points are one series.
func parsePoints(r io.Reader) ([]series, error) {
	c := csv.NewReader(r)
	c.TrimLeadingSpace = true
	head, err := c.Read()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(head, pointsHeader) {
		return nil, fmt.Errorf("line 1: %q, want the columns %q", head, pointsHeader)
	}
	var list []series
	for {
		row, err := c.Read()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := c.FieldPos(0)
		bytes, err := strconv.ParseInt(row[2], 10, 64)
		if err != nil || bytes <= 0 {
			return nil, fmt.Errorf("line %d: file_bytes %q is not a number of bytes", line, row[2])
		}
		kl, err := strconv.ParseFloat(row[3], 64)
		if err != nil || !(kl >= leastKL && kl <= math.MaxFloat64) {
			return nil, fmt.Errorf("line %d: kl %q is not a divergence above 0", line, row[3])
		}
		at := slices.IndexFunc(list, func(s series) bool { return s.name == row[0] })
		if at < 0 {
			at = len(list)
			list = append(list, series{name: row[0]})
		}
		list[at].points = append(list[at].points, point{row[1], bytes, kl})
	}
}

// The size of the picture of divergences.
const (
	divergenceWidth  = 18 * vg.Centimeter
	divergenceHeight = 12 * vg.Centimeter
)

// leastKL is the least divergence that is no rounding error.
const leastKL = 1e-9

// plotDivergence draws the divergence of models over the size of their files,
// on a logarithmic scale.
func plotDivergence(path, reference string, all []series) error {
	if !slices.ContainsFunc(all, func(s series) bool { return len(s.points) > 0 }) {
		return fmt.Errorf("--plot %s: no model is at a distance from the reference", path)
	}
	p := newPlot("divergence from " + filepath.Base(filepath.Clean(reference)))
	p.X.Label.Text, p.Y.Label.Text = "weight files, MB", "mean KL divergence, nats"
	p.X.Tick.Marker = plot.TickerFunc(evenTicks)
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
	p.Legend.Top, p.Legend.Padding = true, 3
	lines := plotter.NewGrid()
	lines.Vertical.Color, lines.Horizontal.Color = lightGray, lightGray
	p.Add(lines)
	for i, s := range all {
		if len(s.points) == 0 {
			continue
		}
		if err := addSeries(p, i, s); err != nil {
			return fmt.Errorf("--plot %s: %w", path, err)
		}
	}
	if len(all) == 1 {
		p.Legend = plot.NewLegend() // says nothing
	}
	p.X.Padding, p.Y.Padding = 0, 0
	widen(&p.X, func(lo, hi float64) (float64, float64) { d := max((hi-lo)*0.08, hi*0.03); return lo - d, hi + 2*d })
	widen(&p.Y, func(lo, hi float64) (float64, float64) { return lo / 1.6, hi * 1.8 })
	return savePicture(path, divergenceWidth, divergenceHeight, func(c draw.Canvas) {
		p.Draw(draw.Crop(c, 0.3*vg.Centimeter, -0.4*vg.Centimeter, 0.3*vg.Centimeter, -0.3*vg.Centimeter))
	})
}

// addSeries adds one program's points, joined in the order of their sizes.
func addSeries(p *plot.Plot, i int, s series) error {
	slices.SortFunc(s.points, func(a, b point) int { return cmp.Compare(a.bytes, b.bytes) })
	var xy plotter.XYs
	var labels []string
	for _, v := range s.points {
		xy, labels = append(xy, plotter.XY{X: float64(v.bytes) / 1e6, Y: v.kl}), append(labels, v.label)
	}
	line, marks, err := plotter.NewLinePoints(xy)
	if err != nil {
		return err
	}
	line.Color, line.Width = plotutil.Color(i), 1.2
	marks.Color, marks.Shape, marks.Radius = plotutil.Color(i), shapes[i%len(shapes)], 3
	text, err := plotter.NewLabels(plotter.XYLabels{XYs: xy, Labels: labels})
	if err != nil {
		return err
	}
	text.Offset = vg.Point{X: 5, Y: 4}
	for k := range text.TextStyle {
		text.TextStyle[k].Font, text.TextStyle[k].Color = p.X.Tick.Label.Font, plotutil.Color(i)
		text.TextStyle[k].Font.Size = smallSize
	}
	p.Add(line, marks, text)
	p.Legend.Add(s.name, line, marks)
	return nil
}

// shapes tell series apart without color.
var shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}}

func widen(a *plot.Axis, by func(lo, hi float64) (float64, float64)) { a.Min, a.Max = by(a.Min, a.Max) }

// evenTicks marks four to ten multiples of 1, 2 or 5 times a power of ten. (Those
// of package plot have places that their labels, rounded, do not name.)
func evenTicks(lo, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/4)))
	for _, f := range []float64{5, 2} {
		if (hi-lo)/(step*f) >= 4 {
			step *= f
			break
		}
	}
	var ticks []plot.Tick
	for n := math.Ceil(lo / step); n*step <= hi; n++ {
		ticks = append(ticks, plot.Tick{Value: n * step, Label: strconv.FormatFloat(n*step, 'g', 6, 64)})
	}
	return ticks
}

// logTicks marks 1, 2 and 5 times powers of ten, or of a wide range powers only.
func logTicks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	factors := []float64{1, 2, 5}
	if hi/lo > 1e4 {
		factors = factors[:1]
	}
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, f := range factors {
			if v := f * math.Pow(10, e); v >= lo && v <= hi {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 2, 64)})
			}
		}
	}
	return ticks
}
