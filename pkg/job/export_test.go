package job

// The keys of the table, for tests that delete or replace single items as an expiry or a restored table would.
var (
	KeyOf      = keyOf
	SlotKey    = slotKey
	SegmentKey = segmentKey
	PageKey    = pageKey
	ShardKey   = shardKey
	SettledKey = settledKey
	PeriodKey  = periodKey
)
