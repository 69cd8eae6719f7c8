// Package bolt is store.Store in one file, on go.etcd.io/bbolt: the store of a laptop or a single server, of the tests and of the simulation. It has no dependency
// outside its process, and what it promises is what DynamoDB promises.
//
// Durability: unless Options.NoSync, Transact returns after fsync. Calls that wait for each other's fsync are committed together by the first of them, so many
// concurrent callers pay for few; a lone caller does not wait for company. Each call of a group is decided by itself, on what the calls before it wrote: one refused
// call changes nothing for its neighbours.
//
// The file belongs to one process at a time. It holds a bucket "meta" that says whose file it is, and one bucket per table, made on the first write, whose keys are
// partition key, NUL, sort key, and whose values are store.Marshal. NUL cannot occur in a key, so byte order of the file is byte order of sort keys.
//
// Costs are computed by DynamoDB's published rules (hanbeon/pkg/store, Meter). Whether a call would go as a transaction, at double the price, follows hanbeon/pkg/dynamo:
// more than one write, a write on a ledger, or a check.
package bolt
