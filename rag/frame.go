package rag

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A frame is mark, length, CRC32C over length and payload, payload; numbers are
// little-endian. The mark lets a reader find the next frame behind damage.
const (
	frameMark   = "\xe1lm\x01"
	frameHeader = len(frameMark) + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends a payload as a frame to dst.
func appendFrame(dst, payload []byte) []byte {
	dst = append(dst, frameMark...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint32(dst, checksum(dst[len(dst)-4:], payload))
	return append(dst, payload...)
}

func checksum(length, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, payload)
}

// gap is a run of bytes that are no frames.
type gap struct{ from, to int }

func (g gap) String() string { return fmt.Sprintf("bytes %d…%d", g.from, g.to) }

// scanner reads the frames of a file one by one and steps over damage.
type scanner struct {
	data []byte
	at   int   // where the next frame is looked for
	gaps []gap // damage with a good frame behind it
	tail gap   // bytes behind the last good frame; from == to if there are none

	// effort bounds the bytes whose checksum is taken while looking for a frame
	// behind damage: a file made of marks alone would take the square of its size.
	effort int
}

// effortFactor times the size of a file may be read in search of frames.
const effortFactor = 16

func newScanner(data []byte) *scanner {
	return &scanner{data: data, effort: effortFactor*len(data) + maxPayload}
}

// next gives the next payload, which aliases data, and its offset.
func (s *scanner) next() (payload []byte, offset int, ok bool) {
	if p, good := s.frame(s.at); good {
		offset = s.at
		s.at += frameHeader + len(p)
		return p, offset, true
	}
	from := s.at
	for at := from + 1; at < len(s.data) && s.effort > 0; at++ {
		i := bytes.Index(s.data[at:], []byte(frameMark))
		if i < 0 {
			break
		}
		at += i
		if p, good := s.frame(at); good {
			s.gaps = append(s.gaps, gap{from, at})
			s.at = at + frameHeader + len(p)
			return p, at, true
		}
	}
	s.tail = gap{from, len(s.data)}
	s.at = len(s.data)
	return nil, 0, false
}

// frame gives the payload of the frame at an offset, if there is a good one.
func (s *scanner) frame(at int) ([]byte, bool) {
	rest := s.data[at:]
	if len(rest) < frameHeader || string(rest[:len(frameMark)]) != frameMark {
		return nil, false
	}
	length := binary.LittleEndian.Uint32(rest[4:])
	if length > uint32(maxPayload) || int(length) > len(rest)-frameHeader {
		return nil, false
	}
	payload := rest[frameHeader : frameHeader+int(length)]
	s.effort -= len(payload)
	return payload, checksum(rest[4:8], payload) == binary.LittleEndian.Uint32(rest[8:])
}
