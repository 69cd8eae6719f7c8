// Package sqs is the queue of hanbeon on Amazon SQS: the contract of hanbeon/pkg/queue over the SDK's client.
//
// SQS answers a batch entry by entry: a request may succeed and still have refused a part of it. Send looks at each entry, sends again only those that were not
// accepted, and names those that never were. An answer that was lost means sending again what may have arrived: a duplicate, which every engine is built for.
package sqs
