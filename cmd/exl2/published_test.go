package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// published are command lines of ExLlamaV2's programs as they stand in manuals,
// model cards, scripts and bug reports, with `python` gone (`alias python=exl2`)
// and variables filled in, and some of the commands here in the same spelling;
// want is what is run instead, or, behind a !, the words of the refusal.
var published = []struct{ from, line, want string }{
	{
		"doc/convert.md", `convert.py -i /mnt/models/llama2-7b-fp16/ -o /mnt/temp/exl2/ -cf /mnt/models/llama2-7b-exl2/3.0bpw/ -b 3.0`,
		`convert --in-dir /mnt/models/llama2-7b-fp16/ --out-dir /mnt/temp/exl2/ --compile-full /mnt/models/llama2-7b-exl2/3.0bpw/ --bits 3.0`,
	}, {
		"doc/convert.md", `convert.py -i /mnt/models/llama2-7b-fp16/ -o /mnt/temp/exl2/ -nr -om /mnt/models/llama2-7b-exl2/measurement.json`,
		`convert --in-dir /mnt/models/llama2-7b-fp16/ --out-dir /mnt/temp/exl2/ --restart --output-measurement /mnt/models/llama2-7b-exl2/measurement.json`,
	}, {
		"doc/convert.md", `convert.py -i /mnt/models/llama2-7b-fp16/ -o /mnt/temp/exl2/ -nr -m /mnt/models/llama2-7b-exl2/measurement.json -cf /mnt/models/llama2-7b-exl2/4.0bpw/ -b 4.0`,
		`convert --in-dir /mnt/models/llama2-7b-fp16/ --out-dir /mnt/temp/exl2/ --restart --measurement /mnt/models/llama2-7b-exl2/measurement.json --compile-full /mnt/models/llama2-7b-exl2/4.0bpw/ --bits 4.0`,
	}, {
		"doc/convert.md", `convert.py -o /mnt/temp/exl2/`,
		`convert --out-dir /mnt/temp/exl2/`,
	}, {
		"a notebook on EXL2", `exllamav2/convert.py -i base_model -o quant -c wikitext-test.parquet -b 4.5`,
		`convert --in-dir base_model --out-dir quant --cal-dataset wikitext-test.parquet --bits 4.5`,
	}, {
		"a web service", `/app/exllamav2/convert.py -i models/llama -o quantized_models/llama-EXL2 -b 4.5`,
		`convert --in-dir models/llama --out-dir quantized_models/llama-EXL2 --bits 4.5`,
	}, {
		"README of a contest entry", `exllamav2/convert.py -i nlp/src/models/gorilla-openfunctions-v2 -o nlp/src/models/exl2_tmp/ -cf nlp/src/models/gorilla-openfunctions-v2-5.0bpw-h6-exl2/ -b 5.0 -hb 6`,
		`convert --in-dir nlp/src/models/gorilla-openfunctions-v2 --out-dir nlp/src/models/exl2_tmp/ --compile-full nlp/src/models/gorilla-openfunctions-v2-5.0bpw-h6-exl2/ --bits 5.0 --head-bits 6`,
	}, {
		"README, result in the working folder", `/root/src/exllamav2/convert.py -i mm-models/mind-mem-4b -o mm-models/mind-mem-4b-exl2-4bpw -cf mm-models/mind-mem-4b-exl2-4bpw -b 4.0`,
		`convert --in-dir mm-models/mind-mem-4b --out-dir mm-models/mind-mem-4b-exl2-4bpw --compile-full mm-models/mind-mem-4b-exl2-4bpw --bits 4.0`,
	}, {
		"README of a course", `exllamav2/convert.py -i models/Llama-3.2-3B-Instruct -o models/Llama-3.2-3B-Instruct-Quan-temp -c train-00000-of-00001.parquet -cf models/Llama-3.2-3B-Instruct-Quan-2.8bits-1100-all -b 2.8 -r 1100`,
		`convert --in-dir models/Llama-3.2-3B-Instruct --out-dir models/Llama-3.2-3B-Instruct-Quan-temp --cal-dataset train-00000-of-00001.parquet --compile-full models/Llama-3.2-3B-Instruct-Quan-2.8bits-1100-all --bits 2.8 --dataset-rows 1100`,
	}, {
		"a container's script", `/workspace/exllamav2/convert.py -i /workspace/input-model -o /workspace/input-model/EXL2/Work -nr -m /workspace/input-model/EXL2/Output/measurement.json -cf /workspace/input-model/EXL2/Output/4.0bpw/ -b 4.0`,
		`convert --in-dir /workspace/input-model --out-dir /workspace/input-model/EXL2/Work --restart --measurement /workspace/input-model/EXL2/Output/measurement.json --compile-full /workspace/input-model/EXL2/Output/4.0bpw/ --bits 4.0`,
	}, {
		"a cluster's script", `exllamav2/convert.py -i model -o temp -nr -om measurement.json -ml 2048 -mr 16 -l 2048 -r 100`,
		`convert --in-dir model --out-dir temp --restart --output-measurement measurement.json --measurement-length 2048 --measurement-rows 16 --length 2048 --dataset-rows 100`,
	}, {
		"a cluster's script", `exllamav2/convert.py -i model -o temp -nr -m measurement.json -ml 2048 -mr 16 -c cal.parquet -l 2048 -r 100`,
		`convert --in-dir model --out-dir temp --restart --measurement measurement.json --measurement-length 2048 --measurement-rows 16 --cal-dataset cal.parquet --length 2048 --dataset-rows 100`,
	}, {
		"README, installed as a wheel", `-m exllamav2.conversion.convert_exl2 -i LLM_Wizard/qwen2.5-vl-finetune-merged -o LLM_Wizard/exl2_out -b 4.0 -hb 6 -c LLM_Wizard/dataset/exllama_calibration.parquet -l 2040 -r 100 -ss 0`,
		`convert --in-dir LLM_Wizard/qwen2.5-vl-finetune-merged --out-dir LLM_Wizard/exl2_out --bits 4.0 --head-bits 6 --cal-dataset LLM_Wizard/dataset/exllama_calibration.parquet --length 2040 --dataset-rows 100 --shard-size 0`,
	}, {
		"README, installed as a wheel", `-m exllamav2.conversion.convert_exl2 -i LLM_Wizard/qwen2.5-vl-finetune-merged -o LLM_Wizard/exl2_out -c LLM_Wizard/dataset/exllama_calibration.parquet -nr -l 100 -r 10 -mr 3 -b 8.0`,
		`convert --in-dir LLM_Wizard/qwen2.5-vl-finetune-merged --out-dir LLM_Wizard/exl2_out --cal-dataset LLM_Wizard/dataset/exllama_calibration.parquet --restart --length 100 --dataset-rows 10 --measurement-rows 3 --bits 8.0`,
	}, {
		"README, installed as a wheel", `-m exllamav2.conversion.convert_exl2`,
		`convert`,
	}, {
		"a script that quantizes for the Hub", `/opt/exllamav2/convert.py -i /models/Mistral-7B/ -o /tmp/exl2/ -nr -om /models/Mistral-7B-exl2/measurement.json`,
		`convert --in-dir /models/Mistral-7B/ --out-dir /tmp/exl2/ --restart --output-measurement /models/Mistral-7B-exl2/measurement.json`,
	}, {
		"a shell script", `exllamav2_utils_repo/convert.py -i /data/fast/modelbridge/calme-3.2-instruct-78b-exl2/ -o /data/fast/modelbridge/calme-3.2-instruct-78b-exl2-4.0-job/ -cf /data/fast/modelbridge/calme-3.2-instruct-78b-exl2-4.0/ -b 4.0`,
		`convert --in-dir /data/fast/modelbridge/calme-3.2-instruct-78b-exl2/ --out-dir /data/fast/modelbridge/calme-3.2-instruct-78b-exl2-4.0-job/ --compile-full /data/fast/modelbridge/calme-3.2-instruct-78b-exl2-4.0/ --bits 4.0`,
	}, {
		"a manual on quantizing", `convert.py -i ./llama-3.1-8b -o ./llama-3.1-8b-exl2 -b 4.5`,
		`convert --in-dir ./llama-3.1-8b --out-dir ./llama-3.1-8b-exl2 --bits 4.5`,
	}, {
		"a course, with a flag that never was", `convert.py --in_dir ./Llama-2-7b-hf --out_dir ./llama-2-7b-exl2 --output-format exl2`,
		`!unknown flag: --output-format`,
	}, {
		"model card, measuring", `convert.py --in_dir FastModels/Capybara-Tess-Yi-34B-200K -o FastModels/Capybara-Tess-Yi-34B-200K-exl2 -om FastModels/capytessmes.json --cal_dataset smol.parquet -l 2048 -r 80 -ml 2048 -mr 40 -gr 40 -ss 4096 -nr -b 3.5 -hb 6`,
		`convert --in_dir FastModels/Capybara-Tess-Yi-34B-200K --out-dir FastModels/Capybara-Tess-Yi-34B-200K-exl2 --output-measurement FastModels/capytessmes.json --cal_dataset smol.parquet --length 2048 --dataset-rows 80 --measurement-length 2048 --measurement-rows 40 --gpu-rows 40 --shard-size 4096 --restart --bits 3.5 --head-bits 6`,
	}, {
		"model card, quantizing", `convert.py --in_dir FastModels/Capybara-Tess-Yi-34B-200K -o FastModels/Capybara-Tess-Yi-34B-200K-exl2 -m FastModels/capytessmes.json --cal_dataset medium.parquet -l 2048 -r 200 -ml 2048 -mr 40 -gr 200 -ss 4096 -b 3.1 -hb 6 -cf FastModels/Capybara-Tess-Yi-34B-200K-exl2-31bpw -nr`,
		`convert --in_dir FastModels/Capybara-Tess-Yi-34B-200K --out-dir FastModels/Capybara-Tess-Yi-34B-200K-exl2 --measurement FastModels/capytessmes.json --cal_dataset medium.parquet --length 2048 --dataset-rows 200 --measurement-length 2048 --measurement-rows 40 --gpu-rows 200 --shard-size 4096 --bits 3.1 --head-bits 6 --compile-full FastModels/Capybara-Tess-Yi-34B-200K-exl2-31bpw --restart`,
	}, {
		"model card", `convert.py -i Yi-34b-200K-alpaca-rpv3-scipy -c exl2/0000.parquet -o Yi-34b-200K-alpaca-rpv3-scipy-4bpw-hb6-exl2 -hb 6 -l 4096 -b 6`,
		`convert --in-dir Yi-34b-200K-alpaca-rpv3-scipy --cal-dataset exl2/0000.parquet --out-dir Yi-34b-200K-alpaca-rpv3-scipy-4bpw-hb6-exl2 --head-bits 6 --length 4096 --bits 6`,
	}, {
		"exllamav2#6", `convert.py -i ./model/llama2-7b/ -o ./model/converted/ -b 8`,
		`convert --in-dir ./model/llama2-7b/ --out-dir ./model/converted/ --bits 8`,
	}, {
		"exllamav2#20", `convert.py -i safetensor/model -o EXL2/model_4bit -c EXL2/0000.parquet -b 4.0 -hb 6`,
		`convert --in-dir safetensor/model --out-dir EXL2/model_4bit --cal-dataset EXL2/0000.parquet --bits 4.0 --head-bits 6`,
	}, {
		"exllamav2#130", `convert.py -nr -i /root/bei/Models/openbuddy-llama2-70b-v10.1-bf16 -o /root/bei/Models/openbuddy-exllamav2 -cf /root/bei/Models/openbuddy-exllamav2 -c /root/bei/exllamav2/wikitext-103-v1/0000.parquet -hb 8 -b 8.0`,
		`convert --restart --in-dir /root/bei/Models/openbuddy-llama2-70b-v10.1-bf16 --out-dir /root/bei/Models/openbuddy-exllamav2 --compile-full /root/bei/Models/openbuddy-exllamav2 --cal-dataset /root/bei/exllamav2/wikitext-103-v1/0000.parquet --head-bits 8 --bits 8.0`,
	}, {
		"exllamav2#156", `convert.py -i /models/llama2-70b-chat-hf -o /models/temp/exl2 -c /data/reddit_finance_43_250k.parquet -cf /models/output/llama2-70b-chat-hf-exl2/2.5bpw/ -b 2.5`,
		`convert --in-dir /models/llama2-70b-chat-hf --out-dir /models/temp/exl2 --cal-dataset /data/reddit_finance_43_250k.parquet --compile-full /models/output/llama2-70b-chat-hf-exl2/2.5bpw/ --bits 2.5`,
	}, {
		"exllamav2#273", `convert.py -i J:\models\NeverSleep_Noromaid -o g:\ai -nr -om NeverSleep_Noromaid_measurement.json`,
		`convert --in-dir J:\models\NeverSleep_Noromaid --out-dir g:\ai --restart --output-measurement NeverSleep_Noromaid_measurement.json`,
	}, {
		"exllamav2#273", `.\exllamav2\convert.py -i J:\models\NeverSleep_Noromaid -o g:\ai\in -om g:\ai\out\b3.json -nr`,
		`convert --in-dir J:\models\NeverSleep_Noromaid --out-dir g:\ai\in --output-measurement g:\ai\out\b3.json --restart`,
	}, {
		"exllamav2#389", `convert.py -i C:\Model-7B -o C:\temp-8.0bpw-h8-exl2 -cf C:\Model-7B-8.0bpw-h8-exl2 --bits 8.0 -hb 8 --length 4096 --measurement_length 4096 --cal_dataset C:\pippa.parquet -m C:\measurement.json`,
		`convert --in-dir C:\Model-7B --out-dir C:\temp-8.0bpw-h8-exl2 --compile-full C:\Model-7B-8.0bpw-h8-exl2 --bits 8.0 --head-bits 8 --length 4096 --measurement_length 4096 --cal_dataset C:\pippa.parquet --measurement C:\measurement.json`,
	}, {
		"exllamav2#419", `convert.py -i ./model/Meta-Llama-3-8B-Instruct -o work_dir -cf ./model/Meta-Llama-3-8B-Instruct_exl2_4_25 -hb 6 -b 4.25 -c ./dataset/WizardLM_evol_instruct_70k.parquet -nr`,
		`convert --in-dir ./model/Meta-Llama-3-8B-Instruct --out-dir work_dir --compile-full ./model/Meta-Llama-3-8B-Instruct_exl2_4_25 --head-bits 6 --bits 4.25 --cal-dataset ./dataset/WizardLM_evol_instruct_70k.parquet --restart`,
	}, {
		"exllamav2#600", `convert.py -i ../models/Twilight-Miqu-146B -o CCCW -cf ../models/Twilight-Miqu-146B-EXL2-RPCAL -c PIPPA-cleaned/pippa_raw_fix.parquet -b 8 -hb 8 -nr`,
		`convert --in-dir ../models/Twilight-Miqu-146B --out-dir CCCW --compile-full ../models/Twilight-Miqu-146B-EXL2-RPCAL --cal-dataset PIPPA-cleaned/pippa_raw_fix.parquet --bits 8 --head-bits 8 --restart`,
	}, {
		"exllamav2#600", `convert.py -i ../models/Twilight-Miqu-146B -o CCCW -cf ../models/Twilight-Miqu-146B-EXL2 -b 8 -hb 8 -nr`,
		`convert --in-dir ../models/Twilight-Miqu-146B --out-dir CCCW --compile-full ../models/Twilight-Miqu-146B-EXL2 --bits 8 --head-bits 8 --restart`,
	}, {
		"a job server, with a float", `convert.py -i in -o work -b 4.0 -ss 8192.0 -so -hsol 2 -fst`,
		`convert --in-dir in --out-dir work --bits 4.0 --shard-size 8192.0 --status-output --hidden-state-offload-layers 2 --fast-safetensors`,
	}, {
		"ExLlamaV2's README", `test_inference.py -m models/llama -p 'Once upon a time,'`,
		`infer --model-dir models/llama --prompt 'Once upon a time,'`,
	}, {
		"ExLlamaV2's README", `test_inference.py -m models/llama -p 'Once upon a time,' --gpu_split auto`,
		`infer --model-dir models/llama --prompt 'Once upon a time,' --gpu_split auto`,
	}, {
		"a notebook on EXL2", `exllamav2/test_inference.py -m quant/ -p 'I have a dream'`,
		`infer --model-dir quant/ --prompt 'I have a dream'`,
	}, {
		"a shell script", `exllamav2/test_inference.py -m weights/ -p 'just say ok to this message.'`,
		`infer --model-dir weights/ --prompt 'just say ok to this message.'`,
	}, {
		"a benchmark of engines", `test_inference.py -m /workspace/Llama-2-7B-GPTQ/ -p 'What is the meaning of life?' -t 256`,
		`infer --model-dir /workspace/Llama-2-7B-GPTQ/ --prompt 'What is the meaning of life?' --tokens 256`,
	}, {
		"a benchmark of engines, two GPUs", `test_inference.py -m Llama-2-7B-GPTQ/ -p 'What is the meaning of life?' -gs 17,17 -t 256`,
		`infer --model-dir Llama-2-7B-GPTQ/ --prompt 'What is the meaning of life?' --gpu-split 17,17 --tokens 256`,
	}, {
		"a developer's notes", `test_inference.py -m /home/ubuntu/exllamav2/qmodels/llamav2-70b-3.0bpw -p prompts/prompt3.txt -l 1024`,
		`infer --model-dir /home/ubuntu/exllamav2/qmodels/llamav2-70b-3.0bpw --prompt prompts/prompt3.txt --length 1024`,
	}, {
		"notes on AMD GPUs", `test_inference.py -m /data/models/gptq/TheBloke_Llama-2-7B-GPTQ -ps`,
		`bench --model-dir /data/models/gptq/TheBloke_Llama-2-7B-GPTQ --prompt=128,256,512,1024,2048 --generate=0 --depth=0`,
	}, {
		"notes on AMD GPUs", `test_inference.py -m /data/models/exl2/Meta-Llama-3-70B-Instruct-4.0bpw-h6-exl2/ -s`,
		`bench --model-dir /data/models/exl2/Meta-Llama-3-70B-Instruct-4.0bpw-h6-exl2/ --prompt=0 --generate=128 --depth=0,128,256,512,1024,1920`,
	}, {
		"a benchmark's script", `test_inference.py -gs 40 -m models/llama -s`,
		`bench --gpu-split 40 --model-dir models/llama --prompt=0 --generate=128 --depth=0,128,256,512,1024,1920`,
	}, {
		"a profiling script", `test_inference.py -m ../models/Llama-3.1-8B-Instruct-exl2/ -s -l 512 -nfa`,
		`bench --model-dir ../models/Llama-3.1-8B-Instruct-exl2/ --no-flash-attn --prompt=0 --generate=128 --depth=0,128,256,384`,
	}, {
		"a comment, -p without a text", `test_inference.py -m ckpts/Llama2-70B-exl2 -p -t 64 --very-long`,
		`!-p wants a value and is followed by the flag -t`,
	}, {
		"perplexity on two GPUs", `test_inference.py -m models/llama -ed wikitext-test.parquet -gs 17,24 -nfa -fst -lm -sl`,
		`ppl --model-dir models/llama --eval-dataset wikitext-test.parquet --gpu-split 17,24 --no-flash-attn --fast-safetensors --low-mem --stream-layers`,
	}, {
		"perplexity with the cache", `test_inference.py -m models/llama -ed wikitext-test.parquet -er 32 -el 1024 -et`,
		`!-et is not there; leave it out: token by token`,
	}, {
		"perplexity with a quantized cache", `test_inference.py -m models/llama -ed wikitext-test.parquet -eq4`,
		`!-eq4 is not there; leave it out: the cache is not quantized`,
	}, {
		"perplexity with a quantized cache", `test_inference.py -m models/llama --eval_dataset wikitext-test.parquet --eval_token_8bit`,
		`!--eval_token_8bit is not there`,
	}, {
		"the standard test", `test_inference.py -m models/llama -sp wiki2`,
		`!-sp is not there; nothing is downloaded; give the test part of WikiText-2 with -ed`,
	}, {
		"tensor parallel", `test_inference.py -m models/llama -tp -p 'Once upon a time,'`,
		`!-tp is not there; give --devices 0,1`,
	}, {
		"everything at once", `test_inference.py -m models/llama -ps -s -ed wikitext-test.parquet -p 'Once'`,
		`!one at a time`,
	}, {
		"ExLlamaV2's README", `examples/chat.py -m models/llama -mode llama -gs auto`,
		`!use exl2 infer -m MODEL --chat`,
	}, {
		"the commands here", `infer -m models/llama -ps`,
		`!-ps is not there; use exl2 bench`,
	}, {
		"the commands here", `bench -m models/llama -ps`,
		`!-ps is not there; use exl2 bench`,
	}, {
		"the commands here", `synth tinyllama-1.1b -ofolder`,
		`!unknown flag: -ofolder (a value stands apart, as in -o folder)`,
	}, {
		"the commands here", `infer -m models/llama -p -5 -t3 -temp=0.5`,
		`infer --model-dir models/llama --prompt -5 -t3 --temperature=0.5`,
	}, {
		"the commands here", `infer -m models/llama -p=-t`,
		`infer --model-dir models/llama --prompt=-t`,
	},
}

// Every published command line is one of the program's, or says what to do
// instead.
func TestPublishedCommandLines(t *testing.T) {
	for _, p := range published {
		t.Run(p.line, func(t *testing.T) {
			got, err := parsed(t, fields(p.line))
			if want, refused := strings.CutPrefix(p.want, "!"); refused {
				if err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != exitUsage {
					t.Errorf("error %v, want a usage error with %q", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Join(fields(p.want), "\n"); strings.Join(got, "\n") != want {
				t.Errorf("translated to\n%s\nwant\n%s", strings.Join(got, "\n"), want)
			}
		})
	}
}

// parsed translates a command line and has its flags parsed, but does not run
// it.
func parsed(t *testing.T, args []string) ([]string, error) {
	t.Helper()
	root := newRootCommand(&app{out: &writer{to: &strings.Builder{}}, err: os.Stderr})
	root.PersistentPreRunE = nil
	for _, c := range root.Commands() {
		c.RunE = func(*cobra.Command, []string) error { return nil }
	}
	args, err := translate(root, args)
	if err != nil {
		return nil, err
	}
	root.SetArgs(args)
	return args, root.Execute()
}

// fields splits a line at spaces outside of single quotes.
func fields(line string) []string {
	var list []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			list = append(list, part)
		} else {
			list = append(list, strings.Fields(part)...)
		}
	}
	return list
}
