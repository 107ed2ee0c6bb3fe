//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The places where X servers listen: a socket of this system, or a port.
const (
	displaySocket = "/.X11-unix/X"
	firstPort     = 6000
	lastPort      = 6063
)

// watchDisplay calls lost, on a goroutine of its own, when the display server is
// gone. The libraries that draw find out as well, and then call exit, under which
// threads of the model crash, or go round in a loop for ever. Whoever is asleep
// in poll is awake before them.
func watchDisplay(lost func()) {
	go func() {
		for {
			fds := displays()
			if len(fds) == 0 {
				return
			}
			_, err := unix.Poll(fds, -1)
			for i := range fds {
				if fds[i].Revents != 0 {
					lost()
					return
				}
			}
			if err != nil && err != unix.EINTR {
				return // nobody watches, and all is as without
			}
		}
	}()
}

// displays are the sockets of this process at whose other end a display server is.
func displays() (out []unix.PollFd) {
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return nil // the pattern is right
	}
	for _, name := range names {
		target, err := os.Readlink(name)
		fd, numeric := strconv.Atoi(filepath.Base(name))
		if err != nil || numeric != nil || !strings.HasPrefix(target, "socket:") {
			continue
		}
		if peer, err := unix.Getpeername(fd); err == nil && serves(peer) {
			out = append(out, unix.PollFd{Fd: int32(fd), Events: unix.POLLRDHUP})
		}
	}
	return out
}

func serves(peer unix.Sockaddr) bool {
	switch p := peer.(type) {
	case *unix.SockaddrUnix:
		return strings.Contains(p.Name, displaySocket)
	case *unix.SockaddrInet4:
		return p.Port >= firstPort && p.Port <= lastPort
	case *unix.SockaddrInet6:
		return p.Port >= firstPort && p.Port <= lastPort
	}
	return false
}
