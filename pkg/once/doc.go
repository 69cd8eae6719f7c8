// Package once holds the words of hanbeon: kinds, periods, subjects, keys, effects and postings.
//
// A posting is a key and the effects that are to happen under it. The key (`monthly-point:2024-04:member-42`) is the identity of the posting for ever: whatever
// is delivered twice, run twice or retried under it takes effect once. This package knows no store and no cloud; it imports the standard library only.
package once
