// Package sim puts faults between an engine and its world: a wrapper over any store and any queue that fails, loses answers, throttles and kills.
//
// A fault hook answers with two values, apply it? and what error?, because the hard case of every distributed write is the one that was applied and reported failed.
// Script is for tests that fail exactly one call; Faults draws faults from a seed for whole runs.
package sim
