package tidy

// Exceptions are the places of this repository that may break a rule. Keep the
// list short: each entry is a debt, and its reason must convince a reader who
// would rather see the code changed.
var Exceptions = []Exception{}
