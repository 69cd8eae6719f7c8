package main

import "hanbeon/pkg/store"

// Prices of Seoul, on demand, 2026, in USD per million (pricing pages of Amazon DynamoDB and Amazon SQS). Lambda, Scheduler, logs and storage are not in them.
const (
	priceWrites   = 0.68
	priceReads    = 0.1355
	priceRequests = 0.40
)

// cost is what units and SQS requests would cost on AWS, in USD.
func cost(u store.Units, requests int64) float64 {
	return (u.Write*priceWrites + u.Read*priceReads + float64(requests)*priceRequests) / 1e6
}

// ratio is a/b, 0 where there is no b.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
