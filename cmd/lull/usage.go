package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// told is an error in the words of the command line, over the cause that a
// package or a library gave.
type told struct {
	text  string
	cause error
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.cause }

// under names the flag that an error is about, in place of the package's own
// word for what is wrong.
func under(flag string, general, err error) error {
	return &told{flag + ": " + strings.TrimPrefix(err.Error(), general.Error()+": "), err}
}

// strict makes every complaint about arguments a usage error that says what was
// wrong, where, and what is wanted, in all subcommands.
func strict(c *cobra.Command) {
	if c.HasSubCommands() && !c.Runnable() {
		asGroup(c) // cobra's own
	}
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			var already *usageError
			if err == nil || errors.As(err, &already) {
				return err
			}
			return &usageError{inOurWords(cmd, args, err), seeHelp(cmd)}
		}
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

func seeHelp(cmd *cobra.Command) string { return "see `" + cmd.CommandPath() + " --help`" }

// inOurWords replaces what cobra's own checks say, which count arguments and
// call them unknown commands.
func inOurWords(cmd *cobra.Command, args []string, err error) error {
	text := err.Error()
	if !strings.HasPrefix(text, "accepts ") && !strings.HasPrefix(text, "requires at least ") &&
		!strings.HasPrefix(text, "unknown command ") {
		return err
	}
	_, wants, some := strings.Cut(strings.TrimSuffix(cmd.Use, " [flags]"), " ")
	if !some {
		return &told{fmt.Sprintf("%s takes no argument, and got %s", cmd.CommandPath(), quoted(args)), err}
	}
	return &told{fmt.Sprintf("%s wants %s, and got %s", cmd.CommandPath(), wants, quoted(args)), err}
}

func quoted(args []string) string {
	if len(args) == 0 {
		return "nothing"
	}
	var list []string
	for _, a := range args {
		list = append(list, strconv.Quote(a))
	}
	return strings.Join(list, " ")
}

// flagError says what is wrong with a flag: pflag tells of its parsers.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &bare):
		f := bare.GetFlag()
		value, _ := pflag.UnquoteUsage(f)
		return &usageError{&told{fmt.Sprintf("--%s wants a value: --%s %s", f.Name, f.Name, value), err}, seeHelp(cmd)}
	case errors.As(err, &bad):
		f := bad.GetFlag()
		text := fmt.Sprintf("--%s %s: want %s", f.Name, strconv.Quote(bad.GetValue()), kindOf(f.Value.Type()))
		if errors.Is(err, strconv.ErrRange) {
			text += " that is not so large"
		}
		return &usageError{&told{text, err}, seeHelp(cmd)}
	}
	return &usageError{err, seeHelp(cmd)}
}

func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError) error {
	name := "--" + e.GetSpecifiedName()
	hint := seeHelp(cmd)
	if short := e.GetSpecifiedShortnames(); short != "" {
		name = "-" + e.GetSpecifiedName()
	} else if near := nearFlags(cmd, e.GetSpecifiedName()); len(near) > 0 {
		hint = "did you mean --" + strings.Join(near, " or --") + "?"
	}
	return &usageError{&told{fmt.Sprintf("%s has no flag %s", cmd.CommandPath(), name), e}, hint}
}

// nearFlags finds flags that are spelled alike, by cobra's own measure for
// commands.
func nearFlags(cmd *cobra.Command, name string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return names.SuggestionsFor(name)
}

func kindOf(flagType string) string {
	switch flagType {
	case "bool":
		return "true or false"
	case "float64":
		return "a number"
	case "uint32", "uint64":
		return "a whole number from 0"
	case "int":
		return "a whole number"
	}
	return "a " + flagType
}

// finite refuses the numbers that every comparison lets through.
func finite(cmd *cobra.Command) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() != "float64" || err != nil {
			return
		}
		x, bad := strconv.ParseFloat(f.Value.String(), 64)
		if bad != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			err = &usageError{fmt.Errorf("--%s %v: want a finite number", f.Name, f.Value), seeHelp(cmd)}
		}
	})
	return err
}

// needs says which of the named flags were given although they do nothing
// without another one.
func needs(cmd *cobra.Command, other string, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return usagef("--%s does nothing without %s", name, other)
		}
	}
	return nil
}

// asGroup makes a command show its help when it stands alone, and refuse what
// is none of its subcommands.
func asGroup(c *cobra.Command) {
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return noCommand(cmd, args[0])
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	c.SuggestionsMinimumDistance = 2
}

func noCommand(cmd *cobra.Command, name string) error {
	var all []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub.Name())
		}
	}
	hint := "want one of " + strings.Join(all, ", ")
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return &usageError{fmt.Errorf("%s has no command %q", cmd.CommandPath(), name), hint}
}

// newHelpCommand replaces cobra's, which takes an unknown topic for a success.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND…]",
		Short:   "Show the help of a command",
		Example: "  lull help\n  lull help harness run",
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.Root()
			for _, name := range args {
				var next *cobra.Command
				for _, sub := range at.Commands() {
					if sub.Name() == name || sub.HasAlias(name) {
						next = sub
					}
				}
				if next == nil && !at.HasSubCommands() {
					return &usageError{fmt.Errorf("%s has no commands, so no %q", at.CommandPath(), name), seeHelp(at)}
				}
				if next == nil {
					return noCommand(at, name)
				}
				at = next
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// wantsObject reports whether the arguments ask for JSON on standard output,
// where they could not be parsed. A file after --json takes it.
func wantsObject(args []string) bool {
	for i, a := range args {
		value, given := strings.CutPrefix(a, "--json=")
		switch {
		case a == "--":
			return false
		case a == "--json":
			return i+1 == len(args) || !strings.HasSuffix(args[i+1], ".json")
		case given && value == toStandardOutput:
			return true
		case given:
			yes, err := strconv.ParseBool(value)
			return err == nil && yes
		}
	}
	return false
}
