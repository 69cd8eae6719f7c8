// Package worker applies deliveries of a queue.
//
// Bulk takes messages of a bulk kind, one subject each, and settles every subject once, whatever is delivered how often:
//
//   - it reads the job, and for one that is over writes nothing;
//   - it puts up to 49 postings and one shard of the job's tally into one transaction: entries, balances and the count happen together or not at all;
//   - a refused transaction says which writes are in the way and as what. Each of those goes its own way (table below), the rest goes again without them;
//   - after an error without a definite answer the same call again is always correct, here or by a later delivery: the default is to try again, never "done".
//
// What is in the way of a posting, and what follows:
//
//	the shard is closed or gone              the job is over or ending: acknowledge, change nothing, try no other shard
//	entry applied by this job                our own earlier write: acknowledge
//	entry applied by another job, same       settle once as already: SETTLED + tally.already
//	  content (digest)
//	... other content, or an entry that      settle once as failure conflicting-entry; one that cannot be read is logged as an error
//	  cannot be read or has no known state
//	entry failed                             take over: applied over failed, effects, our SETTLED absent, tally.applied
//	our SETTLED                              settled for this job: acknowledge
//	a posting that can never be accepted     failure invalid, if this process or this job has had one accepted; otherwise it is a mistake of the deployment: try again, loudly
//	a count or settlement that can never be  none of the above: nothing is known, try again
//	  accepted
//
// The work ends three seconds before the call does, whatever the store is doing then: a worker that is cut off answers nothing, and everything it had comes again.
//
// A subject is settled for a job when its entry is applied by this job or its SETTLED exists. An entry of another job alone does not settle it.
//
// Single takes messages of a single kind, one job each. It claims the job, makes the outside call while a goroutine beside it renews the lease, and completes the job together with its result.
// How the call ended, and what follows:
//
//	a result                        published with COMPLETED and the freed slot, in one transaction
//	a reason that does not pass     FAILED, the slot is free
//	a reason that passes            PENDING after a pause, FAILED after the last attempt; the message comes again after the pause
//	no call for now (job.Waiting)   the message is handed back before the claim: waiting for a breaker or a rate limit uses up no attempt
//	the claim is lost               the call is stopped, its result refused, nothing written: the job was cancelled, or handed on by the reaper
//	time runs out                   as a reason that passes: the call ends before the function is cut off
//	no answer, the process dies     the lease runs out, and the reaper hands the job on
package worker
