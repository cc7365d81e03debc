// Package convert makes an EXL2 model of a Hugging Face model: it measures,
// allocates, quantizes and writes, in a job folder that an interrupted run
// leaves ready to be continued.
//
// The nouns: [Options] are what the user asks for, a [Target] one of the sizes
// asked for. A job is the state on disk. [Run] does all of it and returns a
// [Report].
//
// A job's files, in the folder job of Options.Work:
//
//	lock                    held by the process that works on the job
//	files.jsonl             every file that the job ever wrote, here or elsewhere, with
//	                        its size and sum; a file is on it before it has its name
//	job.json                the algorithm's version, what was asked, on which processor; what
//	                        a measurement depends on first, alone until something converts
//	asked.json              the options of the last run, for -o WORK alone
//	source.json             size, time and sum of the source's files, sums of its tensors
//	inputs.json             size, time and sum of the calibration data and the measurement that were given
//	calib.safetensors       token rows for quantizing
//	folding.json            which channels of the source are scaled before all else
//	synthetic.safetensors   token rows for quantizing that the source has written
//	synthetic.begun.safetensors              the first of them, until all are there
//	synthetic.json          why there are none, though there might be
//	training.safetensors                     for training, and for judging that
//	training.begun.safetensors
//	measure/calib.safetensors                for measuring
//	measure/KEY.json        a sublayer, or the head, measured
//	hidden.safetensors      hidden states in front of some sublayer, every 3 minutes
//	gradients.safetensors   gradients in front of some sublayer, on the way back
//	measurement.json        all measured
//	trace/KEY.safetensors   the moments of the columns of a module's matrices
//	weights.safetensors     roots of the weights of those rows' tokens, by what linears read: F16 [rows, tokens]
//	BITS/plan.json          the allocation for a target
//	BITS/KEY.safetensors    a sublayer, or the head, quantized
//	BITS/KEY.json           how far its output is from the source's
//	BITS/hidden.safetensors
//	BITS/head.json          perplexities
//	BITS/latents.safetensors         codes in training, every 3 minutes
//	BITS/KEY.trained.safetensors     a sublayer, or the head, with trained codes
//	BITS/trained.json       how training went
//	BITS/done.json          the report on the finished model
//
// Until all is checked there is no job, and what fails leaves nothing behind. A run
// refuses if a setting, the source or what it was given differs from what stands there, deletes unfinished
// temporary files, and goes on behind the last hidden states; sublayers behind them
// are computed again, to the same bytes, but for what was measured of them. A file counts as the job's while it has the
// bytes that files.jsonl says the job wrote. Others are moved aside in the job's folder
// (NAME.kept), and refused elsewhere unless Options.Overwrite is set. config.json is
// deleted before anything else of a model's folder is touched and comes back last, so
// a folder that has one is complete. Options.Restart deletes what is on the list and
// still is as it was written.
package convert
