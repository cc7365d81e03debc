// Package model runs any transformer that package arch can describe.
//
// The nouns: a model is a list of [Module]s, each one part of the residual
// stream's way: an embedding, attention and MLP by turns, a head. [Layout] says
// what they are before anything is loaded. A Module is a list of [Step]s: what is
// computed between products, and the [Site]s whose [Linear]s read the result. A
// [State] holds the activations of a pass, a [Cache] the keys and values of
// sequences. A Linear's [Weight] is the only place that knows weight formats. A
// [Loader] makes modules from files.
package model
