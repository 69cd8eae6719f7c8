// Package catalog owns the business data that jobs read, so far the members and their notes: how they are stored, read page by page, and brought in from
// a file.
//
// The table `catalog` is its own; no other package knows its keys. A member is the item MEMBERS#n / id, where n is the segment of the id
// (job.SegmentOf among job.Segments). One partition per segment makes "all members" sixteen ordered queries, never a scan, and spreads the load of an
// import. A note is the item NOTES#member / 2024-04-15#id: a day of a member is one query, in byte order of ids.
//
// # The CSV file of members
//
// UTF-8, with or without a byte order mark at the start, lines ending in LF or CRLF, fields separated by commas and quoted as in RFC 4180. The first
// line names the columns: `id`, `status`, `joined` and, if wanted, `name`, in any order, spelled exactly so. A header that lacks one, repeats one or
// has another is refused before any row is read.
//
//	column  content
//	id      1 to 128 of A-Z a-z 0-9 . _ ~ @ + = - (once.CheckSubject: what differs is refused, never repaired)
//	status  ACTIVE, INACTIVE or WITHDRAWN
//	joined  when the member joined: an RFC 3339 date-time with offset (2024-03-31T15:30:00Z; kept to the millisecond), or a date (2024-04-01), which means
//	        00:00 of that day in the business time zone; in the years 1900 to 9999 (UTC)
//	name    up to 256 bytes without control characters, or empty
//
// A field has no line breaks, and a line at most 64 KB. Empty lines are skipped. A row that breaks a rule is reported with its line and the reason,
// and reading goes on with the next line; a quoted field that runs over several lines is one bad row, so that no text inside quotes is ever read as a
// member. Where a quote opens and is not closed within 64 KB, the row it stands in is bad and reading goes on with the next line.
//
// The first good row of an id counts. A later one with the same content changes nothing; one with other content is a bad row. Importing a file again
// therefore changes nothing.
//
// # The JSONL file of notes
//
// UTF-8, with or without a byte order mark at the start, one JSON object per line, lines ending in LF or CRLF and at most 512 KB long. Empty lines are
// skipped. An object has these four fields, spelled exactly so, each once, each text, in any order, and no other:
//
//	{"id":"note-1","memberId":"member-42","date":"2024-04-15","text":"트랜잭션을 읽었다.\nTransactions."}
//
//	field     content
//	id        as in the file of members; distinct among the notes of the member and day
//	memberId  of a member that is stored: import the members first
//	date      a real day from 2000 on
//	text      1 byte to 64 KB of UTF-8; no control characters but line breaks and tabs
//
// A row that breaks a rule is reported as in the file of members; its reason never quotes the text of a note. Whether the
// member is stored, and what becomes of a repeated id, is for who puts the notes (PutNotes).
package catalog
