// Package ui lays the screen out without drawing it: Show turns a View, which is
// plain data, into a list of operations on a Canvas of 640×360 pixels: fills,
// frames, texts, sprites, bars. Package draw carries them out; tests read them.
//
// Letters are those of bitmapfont, 6 pixels wide, or 12 for Hangul, and 13 high;
// so text is measured here, exactly, and Check proves that none is cut off and no
// two lie upon each other.
//
// Example: "Hello 마을" is 6·6 + 2·12 = 60 pixels wide. In a panel of 50 pixels
// Wrap gives two lines, "Hello" and "마을".
//
// Out of scope: what things look like (art), larger windows (draw scales the
// whole canvas by a whole number, so nothing is laid out anew).
package ui
