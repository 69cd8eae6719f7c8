package catalog

// HashSet gives the tests the set of hashes.
type HashSet = hashSet

var NewHashSet = newHashSet

func (s *hashSet) Has(h uint64) bool { return s.has(h) }
func (s *hashSet) Put(h uint64)      { s.add(h) }
func (s *hashSet) Slots() int        { return len(s.slots) }
