package frames

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func FuzzRead(f *testing.F) {
	for _, content := range captures(f) {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) { checkRead(t, content) })
}

func FuzzPresentMonRow(f *testing.F) {
	f.Add("mine.exe,1,0x1,0,1.01,10,1.5,8")
	f.Add("mine.exe,1,0x1,0,1.01,NA,-1844674407370945.5,\"8,5\"")
	f.Fuzz(func(t *testing.T, row string) {
		header := "Application,ProcessID,SwapChainAddress,Dropped,TimeInSeconds,MsBetweenPresents,MsInPresentAPI," +
			"msGPUActive\n"
		checkRead(t, []byte(header+row+"\n"+row))
	})
}

func FuzzMangoHudRow(f *testing.F) {
	f.Add("60,16.6,80,16600000")
	f.Add("60,16600,-1,1e9")
	f.Fuzz(func(t *testing.T, row string) {
		checkRead(t, []byte("os,cpu\na,b\nfps,frametime,gpu_load,elapsed\n"+row+"\n"+row))
	})
}

func FuzzCapFrameXRun(f *testing.F) {
	f.Add(`"MsBetweenPresents":[10,11],"Dropped":[true,false]`)
	f.Add(`"MsBetweenPresents":[10,"NA",null,{}],"MsInPresentAPI":[]`)
	f.Fuzz(func(t *testing.T, run string) {
		checkRead(t, []byte(`{"Info":{"ProcessName":"mine.exe"},"Runs":[{"CaptureData":{`+run+`}}]}`))
	})
}

// FuzzNumber compares with strconv, of which lull reads a part.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"16.67", "-0", "1e3", "0.1", "123456789012345678", "-1844674407370945.5", "1,5", "NA"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := undecided
		got, r := d.parse([]byte(s))
		if r != OK {
			return
		}
		want, err := strconv.ParseFloat(strings.ReplaceAll(strings.Trim(s, " \t"), ",", "."), 64)
		if err != nil || got != want || math.IsInf(got, 0) || math.IsNaN(got) {
			t.Fatalf("%q is %v, strconv says %v, %v", s, got, want, err)
		}
		for _, ms := range []float64{got, -got} {
			for _, convert := range []func(float64) (int64, Reason){
				func(v float64) (int64, Reason) { d, r := duration(v, true); return int64(d), r },
				func(v float64) (int64, Reason) { d, r := positive(v); return int64(d), r },
				func(v float64) (int64, Reason) { d, r := instant(v); return int64(d), r },
			} {
				if d, r := convert(ms); r == OK && math.Abs(float64(d)-ms*1e6) > 1+math.Abs(ms)*1e-9 {
					t.Fatalf("%v ms became %d ns", ms, d)
				}
			}
		}
	})
}
