package world

import (
	"errors"
	"fmt"
)

// Code is a result of the C ABI. The numbers are lull.h's, which a test holds
// them to.
type Code int32

// Results.
const (
	OK              Code = 0
	InvalidArgument Code = -1
	NullPointer     Code = -2
	StructSize      Code = -3
	StaleID         Code = -4
	UTF8            Code = -5
	TooLong         Code = -6
	BufferTooSmall  Code = -7
	NotReady        Code = -8
	Busy            Code = -9
	Full            Code = -10
	Nothing         Code = -11
	Persona         Code = -12
	Save            Code = -13
	File            Code = -14
	Load            Code = -15
	Cancelled       Code = -16
	Model           Code = -17
	ABI             Code = -18
	Timeout         Code = -19
	Internal        Code = -20
	Forked          Code = -21
)

// codeTexts is indexed by -Code: the name in lull.h and what it means.
var codeTexts = [...]struct{ name, text string }{
	{"LULL_OK", "done"},
	{"LULL_ERROR_INVALID_ARGUMENT", "an argument is out of its range"},
	{"LULL_ERROR_NULL_POINTER", "a pointer that must be given is null"},
	{"LULL_ERROR_STRUCT_SIZE", "struct_size is none that this library knows"},
	{"LULL_ERROR_STALE_ID", "the world or NPC is not there, or no more"},
	{"LULL_ERROR_UTF8", "text is no valid UTF-8"},
	{"LULL_ERROR_TOO_LONG", "text or data is beyond its limit"},
	{"LULL_ERROR_BUFFER_TOO_SMALL", "the buffer is too small; the length says what is wanted"},
	{"LULL_ERROR_NOT_READY", "the model is not loaded yet"},
	{"LULL_ERROR_BUSY", "that is under way already"},
	{"LULL_ERROR_FULL", "a limit is reached"},
	{"LULL_ERROR_NOTHING", "there is nothing to do that with"},
	{"LULL_ERROR_PERSONA", "the persona cannot be used"},
	{"LULL_ERROR_SAVE", "the saved conversation cannot be used"},
	{"LULL_ERROR_FILE", "a file cannot be read or written"},
	{"LULL_ERROR_LOAD", "library or model cannot be loaded"},
	{"LULL_ERROR_CANCELLED", "somebody asked for it"},
	{"LULL_ERROR_MODEL", "the model failed in the middle of a reply"},
	{"LULL_ERROR_ABI", "header and library do not fit together"},
	{"LULL_ERROR_TIMEOUT", "something did not end in its stated time"},
	{"LULL_ERROR_INTERNAL", "a bug of lull, caught at the boundary: please report it"},
	{"LULL_ERROR_FORKED", "this process was forked from one with lull: only its parent can use it"},
}

// Known reports whether c is a result of lull.h.
func (c Code) Known() bool { return c <= 0 && -int(c) < len(codeTexts) }

// Name is lull.h's name of the result.
func (c Code) Name() string {
	if !c.Known() {
		return fmt.Sprintf("result %d", int32(c))
	}
	return codeTexts[-c].name
}

func (c Code) String() string {
	if !c.Known() {
		return c.Name()
	}
	return codeTexts[-c].name + ": " + codeTexts[-c].text
}

// Error is a failure with the result that the host gets.
type Error struct {
	Code Code
	Text string
}

func (e *Error) Error() string { return e.Text }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// CodeOf is the result of an error: Internal for one that is no Error.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	}
	return Internal
}
