package model

// A Slot names an activation of a State.
type Slot uint8

// The activations of a pass. "Chosen" rows are those of the pass, once for every
// expert that sees them, sorted by expert.
const (
	Stream   Slot = iota // what goes from module to module, F32 [rows, Spec.Handed]
	Residual             // the residual stream, the first columns of that, F32 [rows, hidden]
	Normed               // [rows, hidden]
	Query                // [rows, heads·head dim]
	Key                  // [rows, kv heads·head dim]
	Value
	Mixed // what attention gives, [rows, heads·head dim]
	Gate  // [rows, MLP width]
	Up
	Acted     // act(gate)·up
	Out       // what a sublayer adds to the stream, [rows, hidden]
	Positions // learned, F32 [rows, hidden]

	RawValue // heads of values as they are, where the cache has them wider, [rows, kv heads·value dim]
	Narrow   // what attention gives of such values, [rows, heads·value dim]

	LatentQuery // [rows, query rank]
	RawQuery    // [rows, heads·(dimensions without and with positions)]
	LatentKV    // [rows, rank + dimensions with positions]
	Latent      // of keys and values, normalized, [rows, rank]
	Context     // what latent attention gives, [rows, heads·rank]

	AttnGate // of what attention gives, [rows, heads·head dim], or [rows, heads]
	Gated    // what attention gives, behind its gate

	DeltaQuery   // of linear attention, [rows, heads of keys·key dim]
	DeltaKey     // likewise
	DeltaValue   // [rows, heads of values·value dim]
	DeltaGate    // likewise
	DeltaRates   // of decay and β, F32 [rows, 2·heads of values], or of decay alone
	DeltaColumns // queries, keys and values behind the convolution, F32 [rows, all columns]
	DeltaMixed   // what it gives, F32 [rows, heads of values·value dim]
	DeltaOut     // that, normalized and behind its gate
	DeltaScaled  // DeltaGate, scaled, likewise
	DeltaWide    // likewise, F32
	DeltaResult  // what it adds to the stream beside attention, [rows, hidden]

	ShortB // of gated convolutions, [rows, hidden]
	ShortC
	ShortX
	ShortOut // what they give

	Scores       // logits of the router, F32 [rows, experts]
	Order        // I32 [chosen, 1]: rows of the pass
	Choice       // I32 [chosen, 1]: their experts
	First        // I32 [1, experts+1]: where in Order the rows of each expert begin
	Places       // I32 [rows, experts a row]: in Order
	Weights      // F32 [rows, experts a row]
	ExpertIn     // [chosen, hidden], or [chosen, latent]
	ExpertGate   // [chosen, expert width]
	ExpertUp     // [chosen, expert width]
	ExpertActed  // [chosen, expert width]
	ExpertOut    // [chosen, hidden], or [chosen, latent], and then SharedOut, if that is as wide
	SharedGate   // [rows, width of the shared expert]
	SharedUp     // [rows, width of the shared expert]
	SharedActed  // [rows, width of the shared expert]
	SharedOut    // [rows, hidden]
	SharedScores // logits of its weight, F32 [rows, 1]
	Mixture      // the experts' weighted sum, if it is normalized or projected, or Weighted, F32 [rows, hidden], or [rows, latent]
	Weighted     // Normed times the weights of experts, where they read that, [rows, hidden]

	Embedded  // rows of the table, where they are not the stream, F32 [rows, width of the table]
	HeadRaw   // of the matrix in front of the head, or what the one behind the embedding reads, [rows, width of the table]
	HeadActed // that, behind its activation function

	ExpertNormed // what experts read that have a norm of their own, [rows, hidden]
	ExpertSource // what chosen experts read, where that is a projection, [rows, latent]
	LatentMixed  // their weighted sum, likewise
	Together     // the norms of Mixture and of SharedOut, F32 [rows, hidden]

	LayerStream // the stream behind the MLP, [rows, hidden]
	LayerInput  // [rows, columns of a layer's input]
	LayerGate   // likewise
	LayerActed  // likewise
	LayerOut    // what a layer's input adds to the stream, before it is normalized, [rows, hidden]
	LayerInputs // of all layers, [rows, columns of all]

	Logits // F32 [logit rows, vocabulary]
	slots
)
