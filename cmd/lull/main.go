package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lull-npc/lull/runtime/local"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3". Without it
// the module's version from the build information is shown.
var version string

func main() {
	ctx, stop := interruptible(context.Background())
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	a.derive = local.Derivation
	code := run(ctx, os.Args[1:], a)
	stop()
	os.Exit(code)
}

// interruptible gives a context that the first Ctrl-C (or SIGTERM) ends, so
// that work stops in good order. The second one ends the process at once. A
// command may take a Ctrl-C for itself through interruptHook.
func interruptible(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			if s != os.Interrupt {
				break // SIGTERM ends the program, whatever it does
			}
			if hook := interruptHook.Load(); hook == nil || !(*hook)() {
				break
			}
		}
		fmt.Fprintln(os.Stderr, "\nlull: stopping (once more to quit at once)")
		cancel(errInterrupted)
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}
