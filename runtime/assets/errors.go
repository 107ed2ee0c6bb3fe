package assets

import (
	"errors"
	"io/fs"
	"syscall"
)

// What can go wrong, for errors.Is. Each arrives inside an *Error whose Hint
// says what to do.
var (
	ErrCatalog             = errors.New("catalogue is not valid")
	ErrStamp               = errors.New("stamp is not valid")
	ErrUnknownAsset        = errors.New("no such asset")
	ErrUnsupportedPlatform = errors.New("no prebuilt library for this platform")
	ErrUnpinned            = errors.New("asset has no pinned hashes")
	ErrClientMissing       = errors.New("package client not found")
	ErrClientFailed        = errors.New("package client failed")
	ErrNetwork             = errors.New("package registry not reached")
	ErrNotServed           = errors.New("package registry does not hold this version")
	ErrMismatch            = errors.New("SHA-256 or size differs from the pin")
	ErrArchive             = errors.New("archive cannot be used")
	ErrDiskFull            = errors.New("no space left for the cache")
	ErrReadOnly            = errors.New("cache cannot be written")
	ErrOffline             = errors.New("asset is not in the cache and fetching is off")
	ErrNotFetched          = errors.New("asset is not in the cache")
	ErrNoSuchPath          = errors.New("path does not exist")
	ErrNoLibrary           = errors.New("folder holds no llama.cpp library")
	ErrNoQuantizer         = errors.New("no quantiser to make this asset with")
	ErrDerived             = errors.New("quantiser's result cannot be used")
)

// Error says which asset or path failed, why, and what to do about it.
type Error struct {
	Op     string // what was tried: "fetch", "verify", "locate", …
	Name   string // the asset, flag or path it concerns; may be empty
	Err    error  // the cause; wraps one of the sentinels above where one fits
	Advice string // one sentence for the user; may be empty
}

// Error gives one line, without the advice.
func (e *Error) Error() string {
	text := "assets: " + e.Op
	if e.Name != "" {
		text += " " + e.Name
	}
	return text + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint gives the advice, for a program that prints it on a line of its own.
func (e *Error) Hint() string { return e.Advice }

// advised is a cause that brings its own advice, from deep inside a step.
type advised struct {
	error
	advice string
}

func (a advised) Unwrap() error { return a.error }
func (a advised) Hint() string  { return a.advice }

// fail wraps err for an asset. The advice is the one that err brings, or the
// one for a cause that the operating system names, or the caller's.
func fail(op, name string, err error, advice string) error {
	var hinter interface{ Hint() string }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &hinter):
		advice = hinter.Hint()
	case isDiskFull(err):
		err, advice = join(ErrDiskFull, err), "free some space, or set "+EnvCache+" to a folder on another disk"
	case isReadOnly(err):
		err, advice = join(ErrReadOnly, err), "set "+EnvCache+" to a folder that you may write to"
	}
	return &Error{Op: op, Name: name, Err: err, Advice: advice}
}

// caused carries a sentinel and its cause in one line, which errors.Join does not.
type caused struct{ kind, cause error }

func (c caused) Error() string   { return c.kind.Error() + ": " + c.cause.Error() }
func (c caused) Unwrap() []error { return []error{c.kind, c.cause} }

func join(kind, cause error) error {
	if errors.Is(cause, kind) {
		return cause
	}
	return caused{kind, cause}
}

func isReadOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
