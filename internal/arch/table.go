package arch

// An entry is one architecture. Its function builds on an earlier one's and
// changes what differs; docs/extending.md says how to add one.
type entry struct {
	build func(*Config) Spec
	kind  string // model_type in config.json; empty if another entry has it
	scope Scope
	proof Proof
}

var table = map[string]entry{
	"ArceeForCausalLM":                       {arcee, "arcee", Whole, Golden},
	"CohereForCausalLM":                      {cohere, "cohere", Whole, Golden},
	"Cohere2ForCausalLM":                     {cohere2, "cohere2", Whole, Golden},
	"DbrxForCausalLM":                        {dbrx, "dbrx", Whole, Description},
	"DeepseekV2ForCausalLM":                  {deepseek2, "deepseek_v2", Whole, Description},
	"DeepseekV3ForCausalLM":                  {deepseek3, "deepseek_v3", Whole, Golden},
	"Dots1ForCausalLM":                       {dots1, "dots1", Whole, Golden},
	"Ernie4_5ForCausalLM":                    {ernie45, "ernie4_5", Whole, Golden},
	"Ernie4_5_ForCausalLM":                   {ernie45, "", Whole, Golden}, // the first files' spelling
	"Exaone4ForCausalLM":                     {exaone4, "exaone4", Whole, Golden},
	"GPT2LMHeadModel":                        {gpt2, "gpt2", Whole, Golden},
	"GPTBigCodeForCausalLM":                  {gptBigCode, "gpt_bigcode", Whole, Golden},
	"GPTNeoXForCausalLM":                     {gptNeoX, "gpt_neox", Whole, Golden},
	"GemmaForCausalLM":                       {gemma, "gemma", Whole, Golden},
	"Gemma2ForCausalLM":                      {gemma2, "gemma2", Whole, Golden},
	"Gemma3ForCausalLM":                      {gemma3, "gemma3_text", Whole, Golden},
	"Gemma3ForConditionalGeneration":         {gemma3Vision, "gemma3", Text, Description},
	"GlmForCausalLM":                         {glm, "glm", Whole, Description},
	"Glm4ForCausalLM":                        {glm4, "glm4", Whole, Golden},
	"Glm4MoeForCausalLM":                     {glm4MoE, "glm4_moe", Whole, Golden},
	"GptOssForCausalLM":                      {gptOSS, "gpt_oss", Whole, Golden},
	"GraniteForCausalLM":                     {granite, "granite", Whole, Golden},
	"GraniteMoeForCausalLM":                  {graniteMoE, "granitemoe", Whole, Golden},
	"GraniteMoeSharedForCausalLM":            {graniteMoEShared, "granitemoeshared", Whole, Golden},
	"HeliumForCausalLM":                      {helium, "helium", Whole, Golden},
	"HunYuanDenseV1ForCausalLM":              {hunyuan, "hunyuan_v1_dense", Whole, Golden},
	"HunYuanMoEV1ForCausalLM":                {hunyuanMoE, "hunyuan_v1_moe", Whole, Golden},
	"IndexForCausalLM":                       {index, "index", Whole, Description},
	"InternLM2ForCausalLM":                   {internLM2, "internlm2", Whole, Description},
	"LLaMAForCausalLM":                       {llama, "", Whole, Golden}, // the first files' spelling
	"LlamaForCausalLM":                       {llama, "llama", Whole, Golden},
	"LlavaForConditionalGeneration":          {llava, "llava", Text, Description},
	"LlavaNextForConditionalGeneration":      {llava, "llava_next", Text, Description},
	"LlavaOnevisionForConditionalGeneration": {llava, "llava_onevision", Text, Description},
	"MiniCPMForCausalLM":                     {miniCPM, "minicpm", Whole, Description},
	"MinistralForCausalLM":                   {ministral, "ministral", Whole, Golden},
	"Ministral3ForCausalLM":                  {ministral3, "ministral3", Whole, Description},
	"MistralForCausalLM":                     {mistral, "mistral", Whole, Golden},
	"Mistral3ForConditionalGeneration":       {llava, "mistral3", Text, Description},
	"MixtralForCausalLM":                     {mixtral, "mixtral", Whole, Golden},
	"NemotronForCausalLM":                    {nemotron, "nemotron", Whole, Golden},
	"OlmoForCausalLM":                        {olmo, "olmo", Whole, Description},
	"Olmo2ForCausalLM":                       {olmo2, "olmo2", Whole, Golden},
	"Olmo3ForCausalLM":                       {olmo3, "olmo3", Whole, Golden},
	"OlmoeForCausalLM":                       {olmoe, "olmoe", Whole, Description},
	"OrionForCausalLM":                       {orion, "orion", Whole, Description},
	"PhiForCausalLM":                         {phi, "phi", Whole, Golden},
	"Phi3ForCausalLM":                        {phi3, "phi3", Whole, Golden},
	"PhimoeForCausalLM":                      {phiMoE, "phimoe", Whole, Golden},
	"PhiMoEForCausalLM":                      {phiMoE, "", Whole, Golden}, // the published model's spelling
	"QWenLMHeadModel":                        {qwen, "qwen", Whole, Description},
	"Qwen2ForCausalLM":                       {qwen2, "qwen2", Whole, Golden},
	"Qwen2MoeForCausalLM":                    {qwen2MoE, "qwen2_moe", Whole, Golden},
	"Qwen2VLForConditionalGeneration":        {qwen2VL, "qwen2_vl", Text, Description},
	"Qwen2_5_VLForConditionalGeneration":     {qwen2VL, "qwen2_5_vl", Text, Description},
	"Qwen3ForCausalLM":                       {qwen3, "qwen3", Whole, Golden},
	"Qwen3MoeForCausalLM":                    {qwen3MoE, "qwen3_moe", Whole, Golden},
	"Qwen3VLForConditionalGeneration":        {qwen3VL, "qwen3_vl", Text, Description},
	"SeedOssForCausalLM":                     {seedOSS, "seed_oss", Whole, Golden},
	"SmolLM3ForCausalLM":                     {smolLM3, "smollm3", Whole, Golden},
	"StableLmForCausalLM":                    {stableLM, "stablelm", Whole, Golden},
	"StableLMEpochForCausalLM":               {stableLM, "stablelm_epoch", Whole, Description},
	"Starcoder2ForCausalLM":                  {starcoder2, "starcoder2", Whole, Golden},
	"YiForCausalLM":                          {yi, "yi", Whole, Description},
}
