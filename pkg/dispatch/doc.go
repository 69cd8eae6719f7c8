// Package dispatch opens jobs and turns their subjects into messages.
//
// The Dispatcher takes a firing of EventBridge Scheduler, or an operator's request, and opens the job of its period; then it sends one message per segment. Dying in between is harmless: a firing that
// comes again sends again while the job is PENDING, and so does the reaper.
//
// The Fanout takes a segment and goes through its subjects page by page: freeze, send, advance. A page is stored before its messages are sent, so that a redelivered segment sends the same
// list, whatever the source says by then, and the end of the source is frozen too. Messages may be sent twice; no subject is ever counted twice, and none is forgotten.
package dispatch
