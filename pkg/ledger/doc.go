// Package ledger keeps entries and what they changed.
//
// One item decides the fate of a key: its entry. An entry is `applied` for ever, in the same transaction as its effects, or `failed` until a later job applies it. Whoever comes
// second is refused by that item and sees it, so no question "was this done already?" is ever answered by a read that could be stale when it is acted on.
//
//	pk         sk                                  item
//	member-42  monthly-point:2024-04:member-42     entry {key, state, amount, balance, digest, jobId, scheduledTime, at}
//	member-42  points                              balance {n, entries}
//
// A balance grows by the transaction that inserts the entry and by nothing else: it equals the sum of its applied entries at every moment. Nothing in a ledger has an expiry, since a
// duplicate may come at any time. The package knows no business word; what the effects are is the kind's business, and which job counters move in the same transaction is the caller's.
package ledger
