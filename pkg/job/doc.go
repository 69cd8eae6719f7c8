// Package job owns jobs and all that belongs to them: slots, segments, pages, tallies, settlements and periods. Nobody else knows the keys of its table.
//
// # The life of a bulk job
//
//	            open                 first fan-out              every subject settled
//	(nothing) ────────► PENDING ──────────────────► RUNNING ──────────────────────────► COMPLETED
//	                       │                           │
//	                       └── ending marked, shards closed one by one, ended ────────► CANCELLED, FAILED
//
// Open writes the slot, the job, its segments, its tally shards and the record of its period in one transaction. Messages are sent afterwards; dying in between leaves a PENDING job with a slot, which
// a repeated firing or the reaper sends again. Active never means forgotten: every active job is found from its slot.
//
// The fan-out freezes a page before it sends the messages of the page, and advances the segment behind it afterwards. What is frozen stays, the end of the source included, so two
// fan-outs of one segment agree about every page and cannot both advance. The advanced pages are the manifest: they say who must be settled. With the last page the segment
// adds its count to the total of the job; the total is known when every segment has.
//
// A subject is settled for a job by one of three items, each of which refuses the next try: an entry applied by this job, or a SETTLED item that says already or failed. The tally counts in the very transaction
// that writes the item, on one shard, and only while that shard is open. So the counts are exact at every moment, whatever is delivered how often.
//
// Close completes the job when the counts reach the known total: once they add up they are final. Its transaction frees the slot, and closes the period if nothing failed. It needs no
// look at the shards: whoever comes later is refused by an entry, a SETTLED item or a cursor.
//
// Cancel and Fail end a job in steps that anybody may repeat or take up: mark the ending, close every shard, end. After the mark nothing new begins, after the
// shards are closed nothing can be counted and so nothing applied, and only then does the slot become free. All of it in one transaction would conflict with every busy worker.
//
// # The life of a single job
//
//	            open            claim (attempt + 1, a lease)         complete: result, state and slot at once
//	(nothing) ────────► PENDING ─────────────────────────► RUNNING ──────────────────────────────────────► COMPLETED
//	                     │   ▲                              │   │
//	                     │   └── release, with a pause ─────┤   ├── a reason that does not pass,
//	                     │   └── requeue: lease expired ────┘   │   or the last attempt ──────────────────► FAILED
//	                     └── cancel, or nobody takes it ────────┴── cancel ───────────────────────────────► CANCELLED
//
// A single job is one slow call to somebody outside. Open writes the slot, the job and what the kind adds, then one message is sent. A worker claims the job: from PENDING, in the attempt it read, to RUNNING
// in the next attempt, with a lease and a random token. What the claim proves is in the type: only a Claim can renew, complete, release or fail, and each of these requires the job to be RUNNING in this very attempt. So a
// worker that was only slow, and was reaped, changes nothing any more: not the lease, not the result, not the slot of the next job.
//
// The worker renews the lease while the call lasts. Liveness is the lease, not how long the job takes: a call of an hour whose lease moves is left alone, a worker that died is found a
// minute later. The reaper then gives the job back as PENDING, under the condition that state, attempt and lease still are what it saw, and sends its message; after the last attempt it ends the job as orphaned.
//
// Completion is one transaction: the result, the state, the freed slot. So the call to the outside may be made more than once (at most once per attempt), but one result is published,
// and the next job of the slot begins after it. A result that comes late is refused.
//
// A message says which job, nothing else. One of a job that is RUNNING or over is acknowledged without a call; one that comes before the pause is over is handed back. How often a message was received
// decides nothing: the attempts of the job do, and the queue's maxReceiveCount is larger.
//
// # The end
//
// Every way to end a job goes through one function, which frees the slot in the same transaction and only if it is the job's own: repeated after a lost answer it cannot free the slot of the next job.
//
// # Expiry
//
// Items of a job carry `expires`; DynamoDB deletes them some time after it, one by one and in any order. Nothing depends on that: no update creates an item that is gone (each has a condition on an
// attribute), and a shard that is gone refuses like one that is closed. Periods have no expiry.
package job
