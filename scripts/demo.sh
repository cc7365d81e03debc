#!/bin/sh
# Quantizes the tiny model of testdata to 4 bits per weight, calibrated on
# Parquet data, compares perplexities on text that it was not calibrated on,
# and generates text. Fails if the quantized model is much worse.
set -eu
cd "$(dirname "$0")/.."
exl2=./exl2
model=testdata/models/tiny
text=testdata/heldout.txt
work=build/demo
limit=1.15

$exl2 convert -i $model -o $work -b 4.0 -c calib/builtin.parquet -r 32 -l 512 -mr 8 -ml 512 --restart

perplexity() {
    $exl2 ppl -m "$1" -ed $text -er 16 -el 512 --devices cpu --json --progress none | sed -n 's/.*"perplexity": \([0-9.e+]*\).*/\1/p'
}
source=$(perplexity $model)
result=$(perplexity $work)
echo
printf 'perplexity on %s: %.3f in fp16, %.3f at 4.0 bits per weight\n' $text "$source" "$result"
awk -v a="$source" -v b="$result" -v l=$limit 'BEGIN { if (!(a > 0 && b > 0 && b <= l * a)) { print "that is more than " l " times as much"; exit 1 } }'

prompt='Once upon a time'
echo
printf '%s' "$prompt"
$exl2 infer -m $work -p "$prompt" -t 60 -temp 0.7 -topp 0.9 --seed 1 --devices cpu
