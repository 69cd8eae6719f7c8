// Package aistub is an AI server for laptops and tests: it speaks the OpenAI-compatible protocol of chat completions, needs no model, and answers the same request with the same bytes for ever.
//
// A server that behaves is the easy half. The switches of Behaviour make it slow, busy, broken or silent, for ever or for the first calls only, and can be set while it serves. It asks for no key and looks at none.
//
// No function may link it.
package aistub
