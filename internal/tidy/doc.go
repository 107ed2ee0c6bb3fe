// Package tidy keeps the style of this repository as a test:
//
//	go test ./internal/tidy
//
// # Model
//
// A Tree is every text file below one folder, the Go ones parsed. A Rule looks
// at a Tree and reports Findings; it reads nothing else, so it works in a
// checkout as well as in an exported archive. A Finding reads
//
//	scheduler/step.go:41: time.Now in scheduler, use an instant that the caller passes in
//
// so each says what is wrong and what to write instead. Where a rule has to
// bend, the exception stands in one table with its reason, and an exception
// that nothing needs any more is a finding itself.
//
// # A rule that finds nothing checks nothing
//
// Each rule has a planted defect in tidy_test.go: a few lines of source that
// break it, and a few that look alike and do not. A rule without a planted
// defect fails the test. Example: the rule "lines" is given a file whose second
// line has 121 columns and a third with 120; it must report line 2 and no other.
//
// # Out of scope
//
// What the compiler, go vet and the race detector find. Meaning: a comment may
// be present and wrong.
package tidy
