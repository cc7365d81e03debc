package main

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"exl2/internal/atomicfile"
)

// Sizes of letters in pictures.
const (
	titleSize = 12 * vg.Length(1)
	labelSize = 9 * vg.Length(1)
	smallSize = 7 * vg.Length(1)
)

// The colors of what is not data.
var gray, lightGray = color.Gray{Y: 96}, color.Gray{Y: 224}

// newPlot returns a plot with the letters that all pictures have.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	sans := func(size vg.Length) font.Font {
		return font.Font{Typeface: plot.DefaultFont.Typeface, Variant: "Sans", Size: size}
	}
	p.Title.Text, p.Title.TextStyle.Font, p.Title.Padding = title, sans(titleSize), 8
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font, axis.Tick.Label.Font = sans(labelSize), sans(labelSize)
		axis.Label.Padding = 4
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = gray, gray
	}
	p.Legend.TextStyle.Font = sans(labelSize)
	return p
}

// formatOf returns the format of a picture by the file's ending.
func formatOf(path string) (string, error) {
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	if !slices.Contains([]string{"svg", "png", "pdf"}, format) {
		return "", usage("--plot %s: the name must end in .svg, .png or .pdf", path)
	}
	return format, nil
}

// checkPicture finds before the work what would fail after it: a name without a format, a
// folder that is not there or cannot be written to.
func checkPicture(path string) error {
	if _, err := formatOf(path); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("--plot %s: a folder, want the name of a file", path)
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	f.Abort()
	return nil
}

// savePicture writes what paint draws on a canvas of the given size.
func savePicture(path string, width, height vg.Length, paint func(c draw.Canvas)) error {
	format, err := formatOf(path)
	if err != nil {
		return err
	}
	canvas, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return fmt.Errorf("--plot %s: %w", path, err)
	}
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	var b bytes.Buffer
	if err := painted(func() error { paint(c); _, err := canvas.WriteTo(&b); return err }); err != nil {
		return fmt.Errorf("--plot %s: %w", path, err)
	}
	return atomicfile.Write(path, b.Bytes())
}

// painted calls paint. What draws PDF keeps letters in temporary files, and logs and panics
// where it cannot write them.
func painted(paint func() error) (err error) {
	defer log.SetOutput(log.Writer())
	log.SetOutput(io.Discard)
	defer func() {
		cause := recover()
		text, _ := cause.(string)
		switch {
		case strings.HasPrefix(text, "vgpdf: could not generate font"):
			err = fmt.Errorf("%s; PDF takes a folder for temporary files, which TMPDIR names", text)
		case cause != nil:
			panic(cause)
		}
	}()
	return paint()
}
