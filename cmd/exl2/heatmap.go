package main

import (
	"fmt"
	"image/color"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A grid is the bits per weight of every kind of matrix, by layer; NaN where a
// layer has none of the kind.
type grid struct {
	kinds  []string // in the order of a layer
	layers int
	bits   map[string][]float64
}

// layerNumber finds the layer in a matrix's key, and what kind it is.
var layerNumber = regexp.MustCompile(`\.(\d+)\.(.+)$`)

// expertNumber finds the expert in a kind: experts of a layer are shown as one,
// by their mean.
var expertNumber = regexp.MustCompile(`\.\d+\.`)

// newGrid arranges matrices; the head, which is in no layer, is left out.
func newGrid(layers int, matrices []inspectMatrix) *grid {
	g := &grid{layers: layers, bits: map[string][]float64{}}
	counts := map[string][]int{}
	for _, m := range matrices {
		found := layerNumber.FindStringSubmatch(m.Key)
		if found == nil {
			continue
		}
		layer, err := strconv.Atoi(found[1])
		if err != nil || layer >= layers {
			continue
		}
		kind := shortKind(found[2])
		if g.bits[kind] == nil {
			g.kinds = append(g.kinds, kind)
			g.bits[kind], counts[kind] = slices.Repeat([]float64{math.NaN()}, layers), make([]int, layers)
		}
		if counts[kind][layer]++; counts[kind][layer] == 1 {
			g.bits[kind][layer] = m.BPW
		} else {
			g.bits[kind][layer] += (m.BPW - g.bits[kind][layer]) / float64(counts[kind][layer])
		}
	}
	return g
}

// shortKind names a kind by its last part, or by that of all experts.
func shortKind(name string) string {
	parts := strings.Split(expertNumber.ReplaceAllString(name, ".*."), ".")
	if at := slices.Index(parts, "*"); at > 0 {
		return strings.Join(parts[at-1:], ".")
	}
	return parts[len(parts)-1]
}

// limits returns the least and the most bits, apart from each other.
func (g *grid) limits() (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, row := range g.bits {
		for _, v := range row {
			if !math.IsNaN(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if !(lo < hi) {
		lo, hi = lo-0.5, hi+0.5
	}
	return lo, hi
}

// Sizes of a heat map: cells shrink, down to a line, as layers become many.
const (
	cellHeight  = 0.75 * vg.Centimeter
	cellWidth   = 0.85 * vg.Centimeter
	gridWidth   = 34 * vg.Centimeter // at most
	gridMargins = 4.2 * vg.Centimeter
	gridAround  = 2.4 * vg.Centimeter
	barWidth    = 2.4 * vg.Centimeter
	leastWidth  = 12 * vg.Centimeter
)

// plotBits draws a heat map of the bits per weight: layers across, matrices
// down, one color scale.
func plotBits(path string, r *inspection, layers int) error {
	g := newGrid(layers, r.Matrices)
	if len(g.kinds) == 0 {
		return fmt.Errorf("--plot %s: no matrices in layers", path)
	}
	lo, hi := g.limits()
	colors := shades{lo, hi}
	p := newPlot(fmt.Sprintf("bits per weight: decoder %.3f, head %.3f", r.DecoderBPW, r.HeadBPW))
	p.X.Label.Text = "layer"
	p.X.Tick.Marker, p.Y.Tick.Marker = layerTicks(layers), kindTicks(g.kinds)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.5, float64(layers)-0.5, -0.5, float64(len(g.kinds))-0.5
	p.X.Padding, p.Y.Padding, p.X.LineStyle.Width, p.Y.LineStyle.Width = 0, 0, 0, 0
	p.X.Tick.Length, p.Y.Tick.Length = 0, 0
	p.Add(&cells{grid: g, colors: colors})
	bar := newPlot("")
	bar.Add(&scale{colors: colors})
	bar.HideX()
	bar.Y.Min, bar.Y.Max, bar.Y.Padding = lo, hi, 0
	bar.Y.Tick.Marker = plot.TickerFunc(scaleTicks)

	width := max(leastWidth, min(gridWidth, vg.Length(layers)*cellWidth)) + gridMargins + barWidth
	height := vg.Length(len(g.kinds))*cellHeight + gridAround
	return savePicture(path, width, height, func(c draw.Canvas) {
		c = draw.Crop(c, 0.3*vg.Centimeter, -0.3*vg.Centimeter, 0.2*vg.Centimeter, -0.2*vg.Centimeter)
		p.Draw(draw.Crop(c, 0, -barWidth, 0, 0))
		area := p.DataCanvas(draw.Crop(c, 0, -barWidth, 0, 0))
		right := draw.Crop(c, c.Max.X-c.Min.X-barWidth+0.5*vg.Centimeter, 0, 0, 0)
		right.Min.Y, right.Max.Y = area.Min.Y-labelSize/2, area.Max.Y+labelSize/2
		bar.Draw(right)
	})
}

// layerTicks marks every layer, or as many as leave their numbers legible.
func layerTicks(layers int) plot.ConstantTicks {
	step := 1
	for layers/step > 48 {
		step *= 2
	}
	var ticks []plot.Tick
	for i := 0; i < layers; i += step {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: strconv.Itoa(i)})
	}
	return ticks
}

// kindTicks names the rows, the first on top.
func kindTicks(kinds []string) plot.ConstantTicks {
	var ticks []plot.Tick
	for i, kind := range kinds {
		ticks = append(ticks, plot.Tick{Value: float64(len(kinds) - 1 - i), Label: kind})
	}
	return ticks
}

// scaleTicks marks the ends of the color scale and round numbers between.
func scaleTicks(lo, hi float64) []plot.Tick {
	ticks := []plot.Tick{{Value: lo, Label: fmt.Sprintf("%.2f", lo)}, {Value: hi, Label: fmt.Sprintf("%.2f", hi)}}
	step := 0.25
	for (hi-lo)/step > 8 {
		step *= 2
	}
	for v := math.Ceil(lo/step) * step; v < hi; v += step {
		if min(v-lo, hi-v) > (hi-lo)/12 { // labels would touch
			ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.2f", v)})
		}
	}
	return ticks
}

// cells draws a grid, with numbers where they fit.
type cells struct {
	grid   *grid
	colors shades
}

// Plot implements plot.Plotter.
func (m *cells) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := text.Style{Font: p.X.Tick.Label.Font, Handler: p.TextHandler, XAlign: draw.XCenter, YAlign: draw.YCenter}
	style.Font.Size = smallSize
	format := m.format(style, x(1)-x(0))
	for i, kind := range m.grid.kinds {
		row := float64(len(m.grid.kinds) - 1 - i)
		for layer, v := range m.grid.bits[kind] {
			if math.IsNaN(v) {
				continue
			}
			box := vg.Rectangle{Min: vg.Point{X: x(float64(layer) - 0.5), Y: y(row - 0.5)}, Max: vg.Point{X: x(float64(layer) + 0.5), Y: y(row + 0.5)}}
			fill := m.colors.at(v)
			c.SetColor(fill)
			c.Fill(box.Path())
			c.SetColor(color.White)
			c.SetLineWidth(0.5)
			c.Stroke(box.Path())
			if format != "" {
				style.Color = readableOn(fill)
				c.FillText(style, vg.Point{X: x(float64(layer)), Y: y(row)}, fmt.Sprintf(format, v))
			}
		}
	}
}

// format returns how numbers are written that fit into a cell, "" if none do.
func (m *cells) format(style text.Style, width vg.Length) string {
	_, hi := m.grid.limits()
	for _, format := range []string{"%.2f", "%.1f"} {
		if style.Width(fmt.Sprintf(format, hi))+4 <= width {
			return format
		}
	}
	return ""
}

// readableOn returns black or white, whichever reads better on a color
// (relative luminance of sRGB, without its gamma).
func readableOn(c color.Color) color.Color {
	r, g, b, _ := c.RGBA()
	if 0.299*float64(r)+0.587*float64(g)+0.114*float64(b) > 0.5*0xffff {
		return color.Black
	}
	return color.White
}

// scale draws the color scale, from bottom to top.
type scale struct{ colors shades }

// Plot implements plot.Plotter.
func (s *scale) Plot(c draw.Canvas, p *plot.Plot) {
	const steps = 128
	_, y := p.Transforms(&c)
	lo, hi := s.colors.lo, s.colors.hi
	for i := range steps { // each up to the top, so that no seams show
		from := lo + (hi-lo)*float64(i)/steps
		c.SetColor(s.colors.at(from + (hi-lo)/2/steps))
		c.Fill(vg.Rectangle{Min: vg.Point{X: c.Min.X, Y: y(from)}, Max: vg.Point{X: min(c.Max.X, c.Min.X+0.4*vg.Centimeter), Y: y(hi)}}.Path())
	}
}

// shades are the colors of the numbers from lo to hi.
type shades struct{ lo, hi float64 }

// viridis is the color map of that name, dark blue to yellow, at five places: it
// is even to the eye, color-blind ones too (van der Walt and Smith, 2015).
var viridis = []color.RGBA{{0x44, 0x01, 0x54, 0xff}, {0x3b, 0x52, 0x8b, 0xff}, {0x21, 0x91, 0x8c, 0xff}, {0x5e, 0xc9, 0x62, 0xff}, {0xfd, 0xe7, 0x25, 0xff}}

// at returns the color of v.
func (s shades) at(v float64) color.Color {
	place := (v - s.lo) / (s.hi - s.lo) * float64(len(viridis)-1)
	i := min(max(int(place), 0), len(viridis)-2)
	f := min(max(place-float64(i), 0), 1)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + f*(float64(b)-float64(a)))) }
	a, b := viridis[i], viridis[i+1]
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xff}
}
