package frames

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// endless repeats a block of rows up to n bytes, so that a bench of 100 MB
// holds one block only.
type endless struct {
	header, block []byte
	left          int64
	rest          []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if e.header != nil {
		e.rest, e.header = e.header, nil
	}
	if len(e.rest) == 0 {
		if e.left <= 0 {
			return 0, io.EOF
		}
		e.rest = e.block
		e.left -= int64(len(e.block))
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func synthetic(format Format, bytesWanted int64) *endless {
	var b bytes.Buffer
	e := &endless{left: bytesWanted}
	switch format {
	case PresentMon2:
		e.header = []byte("Application,ProcessID,SwapChainAddress,PresentRuntime,SyncInterval,PresentFlags," +
			"AllowsTearing,PresentMode,FrameType,CPUStartTime,MsBetweenAppStart,MsCPUBusy,MsCPUWait,MsGPULatency," +
			"MsGPUTime,MsGPUBusy,MsGPUWait,DisplayLatency,DisplayedTime,MsAnimationError\n")
		for i := range 1000 {
			fmt.Fprintf(&b, "game.exe,1234,0x1F74,DXGI,0,512,1,Hardware: Independent Flip,Application,%.4f,16.%04d,"+
				"9.%04d,7.1000,1.2000,11.%04d,10.%04d,1.0000,22.5000,16.6600,-0.01%02d\n",
				float64(i)*16.6667, i*7%10000, i, i, i, i%100)
		}
	case PresentMon1:
		e.header = []byte("Application,ProcessID,SwapChainAddress,Runtime,SyncInterval,PresentFlags,Dropped," +
			"TimeInSeconds,MsBetweenPresents,MsBetweenDisplayChange,MsInPresentAPI,MsUntilRenderComplete," +
			"MsUntilDisplayed\n")
		for i := range 1000 {
			fmt.Fprintf(&b, "game.exe,1234,0x000000001AB0B4C0,D3D9,-1,0,0,%.6f,16.%03d,16.667,0.4%02d,1.370,23.525\n",
				float64(i)*0.0166667, i, i%100)
		}
	}
	e.block = b.Bytes()
	return e
}

func BenchmarkRead(b *testing.B) {
	const size = 100 << 20
	for _, f := range []Format{PresentMon1, PresentMon2} {
		b.Run(f.String(), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(synthetic(f, size), Options{}, func(*Record) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
