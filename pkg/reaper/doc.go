// Package reaper brings every active job to an end, whatever died: a message that was never sent, a fan-out, a worker, a whole queue, an ending half done, a firing that never came.
//
// Once a minute it walks the slots, which are all the active jobs, takes a snapshot of each and makes a pure decision (Decide). It acts by conditional writes on exactly what it saw,
// so any number of reapers may run at once. It sends again and it settles; it never does the work.
package reaper
