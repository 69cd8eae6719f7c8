// Package ai is the client of an AI server that speaks the OpenAI-compatible protocol of chat completions: OpenAI itself, a gateway, a team's own server, vLLM, Ollama. It asks one question per call,
// with a JSON schema of the answer, and returns the text of the first choice. Whether that text is any good is for the kind to judge.
//
// # What a call may cost
//
// One call of Complete is one request, or two when the key had to be fetched again. Nothing here retries: the attempts of a job do, with pauses that the queue keeps. The whole request has a deadline, from the fetching
// of the key to the last byte of the answer, so neither a server that never answers nor one that sends a byte per second holds a worker until the function is cut off. An answer has at most 1 MB, after decompression.
// A redirect is followed only when the same server asks for the same request under another path, so the key goes nowhere else.
//
// # How it ends
//
// Every error has a class and a stable reason code, which the job keeps.
//
//	ai-timeout        passes   no complete answer before the deadline
//	ai-unreachable    passes   no connection, or it broke: network, name, certificate
//	ai-busy           passes   429, with the pause that the server asks for (Retry-After)
//	ai-error          passes   408, 425, 5xx
//	ai-bad-answer     passes   something else than an answer of the protocol; empty or cut off; too long. A model may do better next time
//	ai-unauthorised   passes   401, 403, or no key: an operator can mend it while the job waits
//	ai-breaker-open   passes   not called: the server failed too often just now
//	ai-refused        never    any other 4xx; the model or a content filter refuses
//
// The exception is a context that the caller ended, because the claim of the job is lost: Complete then returns the cause as it is, and counts nothing.
//
// # What never leaves
//
// The key, the prompts and the bodies are in no error, log line or panic of this package. A server may send back what it was sent, in its error message or in a broken status line, so nothing of an answer is quoted but
// the status and, if it looks like one and shares nothing with what was sent, the error code.
package ai
