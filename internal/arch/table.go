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
	"CwmForCausalLM":                         {cwm, "cwm", Whole, Golden},
	"DbrxForCausalLM":                        {dbrx, "dbrx", Whole, Golden},
	"DeepseekV2ForCausalLM":                  {deepseek2, "deepseek_v2", Whole, Golden},
	"DeepseekV3ForCausalLM":                  {deepseek3, "deepseek_v3", Whole, Golden},
	"Dots1ForCausalLM":                       {dots1, "dots1", Whole, Golden},
	"Ernie4_5ForCausalLM":                    {ernie45, "ernie4_5", Whole, Golden},
	"Ernie4_5_ForCausalLM":                   {ernie45, "", Whole, Golden}, // the first files' spelling
	"ExaoneForCausalLM":                      {exaone, "exaone", Whole, Golden},
	"Ernie4_5_MoeForCausalLM":                {ernie45MoE, "ernie4_5_moe", Whole, Golden},
	"Exaone4ForCausalLM":                     {exaone4, "exaone4", Whole, Golden},
	"ExaoneMoeForCausalLM":                   {exaoneMoE, "exaone_moe", Whole, Golden},
	"FalconForCausalLM":                      {falcon, "falcon", Whole, Golden},
	"RWForCausalLM":                          {falcon, "", Whole, Golden}, // the first files' spelling
	"GPTJForCausalLM":                        {gptJ, "gptj", Whole, Golden},
	"GPTNeoForCausalLM":                      {gptNeo, "gpt_neo", Whole, Golden},
	"OPTForCausalLM":                         {opt, "opt", Whole, Golden},
	"PersimmonForCausalLM":                   {persimmon, "persimmon", Whole, Golden},
	"FlexOlmoForCausalLM":                    {flexOlmo, "flex_olmo", Whole, Golden},
	"GPT2LMHeadModel":                        {gpt2, "gpt2", Whole, Golden},
	"GPTBigCodeForCausalLM":                  {gptBigCode, "gpt_bigcode", Whole, Golden},
	"GPTNeoXForCausalLM":                     {gptNeoX, "gpt_neox", Whole, Golden},
	"GemmaForCausalLM":                       {gemma, "gemma", Whole, Golden},
	"Gemma2ForCausalLM":                      {gemma2, "gemma2", Whole, Golden},
	"Gemma3ForCausalLM":                      {gemma3, "gemma3_text", Whole, Golden},
	"Gemma3ForConditionalGeneration":         {gemma3Vision, "gemma3", Text, Description},
	"GlmForCausalLM":                         {glm, "glm", Whole, Golden},
	"Glm4ForCausalLM":                        {glm4, "glm4", Whole, Golden},
	"Glm4MoeForCausalLM":                     {glm4MoE, "glm4_moe", Whole, Golden},
	"Glm4MoeLiteForCausalLM":                 {glm4MoELite, "glm4_moe_lite", Whole, Golden},
	"Glm4vForConditionalGeneration":          {glm4V, "glm4v", Text, Description},
	"Glm4vMoeForConditionalGeneration":       {glm4VMoE, "glm4v_moe", Text, Description},
	"GptOssForCausalLM":                      {gptOSS, "gpt_oss", Whole, Golden},
	"GraniteForCausalLM":                     {granite, "granite", Whole, Golden},
	"GraniteMoeForCausalLM":                  {graniteMoE, "granitemoe", Whole, Golden},
	"GraniteMoeSharedForCausalLM":            {graniteMoEShared, "granitemoeshared", Whole, Golden},
	"GraniteMoeSWAForCausalLM":               {graniteMoESWA, "granitemoe_swa", Whole, Golden},
	"GraniteSWAForCausalLM":                  {graniteSWA, "granite_swa", Whole, Golden},
	"HeliumForCausalLM":                      {helium, "helium", Whole, Golden},
	"HunYuanDenseV1ForCausalLM":              {hunyuan, "hunyuan_v1_dense", Whole, Golden},
	"HunYuanMoEV1ForCausalLM":                {hunyuanMoE, "hunyuan_v1_moe", Whole, Golden},
	"IndexForCausalLM":                       {index, "index", Whole, Description},
	"HyperCLOVAXForCausalLM":                 {hyperCLOVAX, "hyperclovax", Whole, Golden},
	"IQuestCoderForCausalLM":                 {iQuestCoder, "iquestcoder", Whole, Description},
	"InternLM2ForCausalLM":                   {internLM2, "internlm2", Whole, Description},
	"InternVLForConditionalGeneration":       {llava, "internvl", Text, Description},
	"InternLM3ForCausalLM":                   {internLM3, "internlm3", Whole, Golden},
	"Jais2ForCausalLM":                       {jais2, "jais2", Whole, Golden},
	"LLaMAForCausalLM":                       {llama, "", Whole, Golden}, // the first files' spelling
	"LlamaForCausalLM":                       {llama, "llama", Whole, Golden},
	"LlavaForConditionalGeneration":          {llava, "llava", Text, Description},
	"LlavaNextForConditionalGeneration":      {llava, "llava_next", Text, Description},
	"LlavaNextVideoForConditionalGeneration": {llava, "llava_next_video", Text, Description},
	"LlavaOnevisionForConditionalGeneration": {llava, "llava_onevision", Text, Description},
	"MellumForCausalLM":                      {mellum, "mellum", Whole, Golden},
	"MiniCPMForCausalLM":                     {miniCPM, "minicpm", Whole, Description},
	"MiniMaxM2ForCausalLM":                   {miniMaxM2, "minimax_m2", Whole, Golden},
	"MinistralForCausalLM":                   {ministral, "ministral", Whole, Golden},
	"Ministral3ForCausalLM":                  {ministral3, "ministral3", Whole, Golden},
	"MistralForCausalLM":                     {mistral, "mistral", Whole, Golden},
	"Mistral3ForConditionalGeneration":       {llava, "mistral3", Text, Description},
	"MixtralForCausalLM":                     {mixtral, "mixtral", Whole, Golden},
	"NemotronForCausalLM":                    {nemotron, "nemotron", Whole, Golden},
	"OlmoForCausalLM":                        {olmo, "olmo", Whole, Golden},
	"Olmo2ForCausalLM":                       {olmo2, "olmo2", Whole, Golden},
	"Olmo3ForCausalLM":                       {olmo3, "olmo3", Whole, Golden},
	"OlmoeForCausalLM":                       {olmoe, "olmoe", Whole, Golden},
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
	"SarvamMLAForCausalLM":                   {sarvamMLA, "sarvam_mla", Whole, Description},
	"SarvamMoEForCausalLM":                   {sarvamMoE, "sarvam_moe", Whole, Golden},
	"SeedOssForCausalLM":                     {seedOSS, "seed_oss", Whole, Golden},
	"SmolLM3ForCausalLM":                     {smolLM3, "smollm3", Whole, Golden},
	"SolarOpenForCausalLM":                   {solarOpen, "solar_open", Whole, Golden},
	"StableLmForCausalLM":                    {stableLM, "stablelm", Whole, Golden},
	"StableLMEpochForCausalLM":               {stableLM, "stablelm_epoch", Whole, Description},
	"Starcoder2ForCausalLM":                  {starcoder2, "starcoder2", Whole, Golden},
	"VaultGemmaForCausalLM":                  {vaultGemma, "vaultgemma", Whole, Golden},
	"VipLlavaForConditionalGeneration":       {llava, "vipllava", Text, Description},
	"YiForCausalLM":                          {yi, "yi", Whole, Description},
	"YoutuForCausalLM":                       {youtu, "youtu", Whole, Golden},
}

// lenders are the classes by which transformers 5 runs architectures that have none of
// their own there. Its files name the lender, and model_type tells the architecture.
var lenders = map[string]string{
	"ExaoneForCausalLM": "LlamaForCausalLM", "InternLM3ForCausalLM": "LlamaForCausalLM", "IQuestCoderForCausalLM": "LlamaForCausalLM",
	"SarvamMLAForCausalLM": "DeepseekV3ForCausalLM", "SarvamMoEForCausalLM": "Glm4MoeForCausalLM",
}
