package catalog

// hashSet is a set of 64-bit hashes in a table with open addressing: 8 bytes per slot and nothing else. (A map[uint64]struct{} takes 16 bytes per
// slot and more.)
type hashSet struct {
	slots []uint64 // 0: empty; the length is a power of two
	n     int
}

func newHashSet() *hashSet { return &hashSet{slots: make([]uint64, 1024)} }

// slot is where h is, or would go. A quarter of the slots is always empty, so the search ends.
func (s *hashSet) slot(h uint64) int {
	mask := uint64(len(s.slots) - 1)
	at := h & mask
	for s.slots[at] != 0 && s.slots[at] != h {
		at = (at + 1) & mask
	}
	return int(at)
}

// nonZero keeps 0 for empty slots.
func nonZero(h uint64) uint64 {
	if h == 0 {
		return 1
	}
	return h
}

func (s *hashSet) has(h uint64) bool { return s.slots[s.slot(nonZero(h))] != 0 }

func (s *hashSet) add(h uint64) {
	h = nonZero(h)
	at := s.slot(h)
	if s.slots[at] != 0 {
		return
	}
	s.slots[at] = h
	if s.n++; s.n <= len(s.slots)/4*3 {
		return
	}
	old := s.slots
	s.slots = make([]uint64, 2*len(old))
	for _, h := range old {
		if h != 0 {
			s.slots[s.slot(h)] = h
		}
	}
}
