// Package chat finds a model's chat template and renders conversations with it:
// the prompt that a model was trained to answer. It follows transformers'
// apply_chat_template.
package chat
