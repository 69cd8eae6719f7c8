// Package local runs the whole system in one process: the real handlers, called as Lambda calls them, on an in-memory queue with the rules of Amazon SQS, driven by what
// template.yaml says about functions, queues, event source mappings and schedules.
//
// What is in the template and not honoured here is an error when the stack is made, so that a laptop never runs other rules than the cloud without saying so.
// Kept from AWS: at-least-once delivery out of order, receive counts, visibility timeouts, dead letters, retention, batch sizes and windows, partial batch failures,
// concurrency, function timeouts, the retries of an asynchronous invocation and its failure queue, schedules in their time zone.
//
// Gateway plays API Gateway in front of the function of the API, and API puts the verification of signatures before that: a request takes the same way through event and adapter as on AWS.
// Throttling is not played: it protects a shared account, and a laptop has one user.
//
// The queue is memory: it is empty at start, and Recover sends what the store knows to be unsettled. The clock is the wall's, or one that jumps over the time in which
// nothing happens (see Config.Skip).
package local
