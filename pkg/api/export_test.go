package api

// MaxScanned is what one page of jobs looks at.
const MaxScanned = maxScanned
