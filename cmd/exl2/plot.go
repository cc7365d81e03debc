package main

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"exl2/internal/atomicfile"
)

// The size of a picture.
const (
	plotWidth  = 18 * vg.Centimeter
	plotHeight = 11 * vg.Centimeter
)

// save writes a picture in the format of the file's ending.
func save(p *plot.Plot, path string) error {
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	if !slices.Contains([]string{"svg", "png", "pdf"}, format) {
		return usage("--plot %s: the name must end in .svg, .png or .pdf", path)
	}
	w, err := p.WriterTo(plotWidth, plotHeight, format)
	if err != nil {
		return fmt.Errorf("--plot %s: %w", path, err)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		return fmt.Errorf("--plot %s: %w", path, err)
	}
	return atomicfile.Write(path, b.Bytes())
}

// layerNumber finds the layer in a matrix's key.
var layerNumber = regexp.MustCompile(`\.(\d+)\.(.+)$`)

// plotBits draws the bits per weight of each kind of matrix over the layers.
func plotBits(path string, layers int, matrices []inspectMatrix) error {
	p := plot.New()
	p.Title.Text = "bits per weight by layer"
	p.X.Label.Text, p.Y.Label.Text = "layer", "bits per weight"
	p.X.Max = 1.2 * max(1, float64(layers-1)) // room for the legend
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	var kinds []string
	lines := map[string]plotter.XYs{}
	for _, m := range matrices {
		found := layerNumber.FindStringSubmatch(m.Key)
		if found == nil {
			continue // the head
		}
		kind := found[2][strings.LastIndexByte(found[2], '.')+1:]
		if lines[kind] == nil {
			kinds = append(kinds, kind)
		}
		layer, _ := strconv.Atoi(found[1])
		lines[kind] = append(lines[kind], plotter.XY{X: float64(layer), Y: m.BPW})
	}
	for i, kind := range kinds {
		line, points, err := plotter.NewLinePoints(lines[kind])
		if err != nil {
			return fmt.Errorf("--plot %s: %w", path, err)
		}
		line.Color, points.Color = plotutil.Color(i), plotutil.Color(i)
		line.Dashes, points.Shape = plotutil.Dashes(i), plotutil.Shape(i)
		p.Add(line, points)
		p.Legend.Add(kind, line, points)
	}
	return save(p, path)
}

// plotDivergence draws the divergence of models over the size of their files,
// on a logarithmic scale.
func plotDivergence(path string, results []pplResult) error {
	p := plot.New()
	p.Title.Text = "divergence from the reference"
	p.X.Label.Text, p.Y.Label.Text = "files, MB", "mean KL divergence, nats"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	points := plotter.XYLabels{}
	for _, r := range results {
		points.XYs = append(points.XYs, plotter.XY{X: float64(r.fileBytes) / 1e6, Y: max(r.KL.Mean, 1e-9)})
		points.Labels = append(points.Labels, " "+filepath.Base(r.Model))
	}
	order := slices.Clone(points.XYs)
	slices.SortFunc(order, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	line, marks, err := plotter.NewLinePoints(order)
	if err != nil {
		return fmt.Errorf("--plot %s: %w", path, err)
	}
	line.Color, marks.Color, marks.Shape = plotutil.Color(0), plotutil.Color(0), plotutil.Shape(1)
	labels, err := plotter.NewLabels(points)
	if err != nil {
		return fmt.Errorf("--plot %s: %w", path, err)
	}
	p.Add(line, marks, labels)
	return save(p, path)
}
