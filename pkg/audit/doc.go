// Package audit checks the invariants of hanbeon on a whole store, as it stands:
//
//	I1  one entry per key, under its own subject, legible, with nothing that could make it expire; with the digest and the effects of its job, while that is kept
//	I2  every balance equals the sum of its applied entries
//	I3  a COMPLETED bulk job accounts for every subject of its manifest exactly once, and its numbers add up
//	I4  an active job holds exactly its slot, and a slot belongs to an active job
//	I5  a job that is over has counted nothing since, and one that was cancelled or failed has no open shard
//	I6  what a job counted never exceeds its total once that is known
//
// and of periods: one scheduled job at most, and a closed one was closed by a job without failures. That a job comes to an end (I7) is nothing a look can tell.
//
// Reads are not a snapshot. On a busy table two reads of one transaction may see it half done; so a violation counts only when a second look finds it again.
package audit
