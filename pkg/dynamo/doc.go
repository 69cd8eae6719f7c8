// Package dynamo is the production store: store.Store on DynamoDB.
//
// How a call becomes requests:
//
//	several writes, a write on a ledger, a lone check   TransactWriteItems
//	another single write                                PutItem, UpdateItem or DeleteItem, at half the price of a transaction
//	Get, GetStale                                       BatchGetItem, at most 100 keys each and 4 of them at once
//	Query                                               Query
//
// Those are all the actions a role needs, with ConditionCheckItem for checks: the parts of a transaction are permitted by the actions of the parts.
//
// # What an answer means
//
// The SDK's retries are off: this package alone decides what is sent again, because only it knows whether the last try may have written. An attempt has 5 seconds.
//
//	success                                 every write happened
//	a condition was false, or invalid       *store.Refused, at once: trying again changes nothing
//	conflict with another transaction       again with jitter, then *store.Busy with the writes in conflict
//	throttling                              again with longer jitter, then *store.Busy without conflicts
//	no answer: timeout, cut, 5xx,           a transaction: again with the same token. A single write: never again, since a second attempt could add a second time,
//	a transaction in progress               or meet the first and take it for somebody else's; the error goes to the caller, whose conditions must decide
//	anything else                           an ordinary error after one try: a mistake in a table, a policy or a request
//
// A transaction carries a random token (ClientRequestToken), for which DynamoDB does the same request once within 10 minutes. While every attempt had a definite answer each
// new attempt gets a new token: the old one belongs to a request that is over. From the first attempt without an answer on the token stays, whatever the later attempts say,
// because that attempt may have been carried out, or may still arrive: with the same token neither it nor a later attempt can happen on top of the other. For the same reason
// the end of such a call is not *store.Busy even if all its later attempts were throttled: nobody knows what the silent one did. It is an error like any other, "unknown".
// A refusal stays a refusal there: it is true of the attempt that got it, which is all that *store.Refused says. No attempt is made with a token that is about to expire.
//
// The token is no guard against a message that is delivered again: that is a new call. The caller's conditions are.
package dynamo
