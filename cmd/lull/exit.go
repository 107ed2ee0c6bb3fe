package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/lull-npc/lull/runtime/assets"
)

// Exit codes, the same for every command.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitObjective   = 3
	exitInterrupted = 130
)

// errInterrupted is the cause of a context that Ctrl-C ended.
var errInterrupted = errors.New("interrupted")

// usageError says that the command line is wrong.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) Hint() string  { return e.hint }

// usagef makes a usage error.
func usagef(format string, args ...any) error { return &usageError{err: fmt.Errorf(format, args...)} }

// objectiveError says that everything ran and an SLO, limit or baseline was not met.
type objectiveError struct{ err error }

func (e *objectiveError) Error() string { return e.err.Error() }
func (e *objectiveError) Unwrap() error { return e.err }

// objectivef makes an objective error.
func objectivef(format string, args ...any) error {
	return &objectiveError{fmt.Errorf(format, args...)}
}

// reportedError has been told in full already: only its exit code is left.
type reportedError struct{ code int }

func (e *reportedError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// hinted adds advice to an error that has none.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }
func (h hinted) Hint() string  { return h.hint }

// exitCode turns what a command returned into the process's exit code.
func exitCode(ctx context.Context, err error) int {
	var usage *usageError
	var objective *objectiveError
	var reported *reportedError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errInterrupted),
		errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errInterrupted):
		return exitInterrupted
	case errors.As(err, &reported):
		return reported.code
	case errors.As(err, &usage), errors.Is(err, assets.ErrUnknownAsset):
		return exitUsage // a name that is not in the catalogue was typed
	case errors.As(err, &objective):
		return exitObjective
	}
	return exitFailed
}

// hintOf finds the advice that an error brings, if any.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// ownPackage finds the names of our packages before what they say. They tell a
// developer where an error comes from, and a user nothing.
var ownPackage = regexp.MustCompile(`(^|\n|: )(?:assets|bench|calibrate|convert|demo|frames|gbnf|harness|llamacpp|` +
	`llm|load|local|metrics|npc|predict|probe|rag|remote|scheduler|scripted|speculative): `)

// plain is the text of an error for people: its causes, without packages.
func plain(err error) string { return plainText(err.Error()) }

func plainText(text string) string {
	for {
		shorter := ownPackage.ReplaceAllString(text, "$1")
		if shorter == text {
			return text
		}
		text = shorter
	}
}
