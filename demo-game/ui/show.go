package ui

import "image"

// Show lays a view out.
func Show(c *Canvas, v *View) {
	switch v.Screen {
	case Title:
		showTitle(c, v)
	case Loading:
		showLoading(c, v)
	default:
		showWorld(c, v)
	}
	switch v.Screen {
	case Dialogue:
		showDialogue(c, v)
	case Shop:
		x, w := ListLeft(v.HUD != nil)
		showList(c, v, image.Rect(x, 70, x+w, 200))
	case Menu:
		showMenu(c, v)
	case Keys:
		showKeys(c, v)
	}
	showNotes(c, v)
	if v.HUD != nil {
		showHUD(c, v.HUD)
	}
	if v.Caption != "" {
		showCaption(c, v)
	}
	if v.Paused != "" {
		c.Fill(image.Rect(0, 0, Width, Height), Shade)
		box := image.Rect(230, 156, 410, 206)
		c.Fill(box, opaque(Night))
		c.Edge(box, Gold)
		c.Centred(box.Inset(8), 1, v.T.Say("pause"), Paper)
		c.Centred(box.Inset(8), 1+LineHeight, v.Paused, Dim)
	}
}

// TitleLeft is where the title's box begins: it makes room for the HUD.
func TitleLeft(hud bool) int {
	if hud {
		return 40
	}
	return 190
}

// ListLeft is where the box of a list begins, and how wide it is.
func ListLeft(hud bool) (x, w int) {
	if hud {
		return 8, 322
	}
	return 120, 400
}

// modelLines is how many lines of the title say how the model is: an error takes
// more than one.
const modelLines = 3

func showTitle(c *Canvas, v *View) {
	c.Ops = append(c.Ops, Op{Kind: OpArea, Name: v.Area})
	c.Fill(image.Rect(0, 0, Width, Height), Shade)
	x := TitleLeft(v.HUD != nil)
	box := c.Panel(image.Rect(x, 48, x+260, 316))
	c.Big(box, 6, 3, v.T.Say("title.name"), Gold)
	c.Centred(box, 52, v.T.Say("title.sub"), Dim)
	for i, ch := range v.Choices {
		col := Paper
		if ch.Off {
			col = Dim
		}
		text := ch.Text
		if i == v.Chosen {
			text, col = "> "+text+" <", Gold
		}
		c.Centred(box, 92+i*22, text, col)
	}
	bar := image.Rect(box.Min.X, 259, box.Max.X, 264)
	c.Fill(bar, Ink)
	bar.Max.X = bar.Min.X + int(float64(bar.Dx())*min(max(v.Progress, 0), 1))
	c.Fill(bar, Leaf)
	lines := Wrap(v.Model, box.Dx())
	if len(lines) > modelLines {
		lines = append(lines[:modelLines-1], Fit(lines[modelLines-1]+" "+lines[modelLines], box.Dx()))
	}
	for i, l := range lines {
		c.Centred(box, 212+i*LetterHeight, l, Dim)
	}
}

func showLoading(c *Canvas, v *View) {
	c.Fill(image.Rect(0, 0, Width, Height), Ink)
	box := image.Rect(120, 200, 520, 260)
	c.Centred(box, 0, v.T.Say("loading", "area", v.Place), Paper)
	bar := image.Rect(220, 226, 420, 232)
	c.Edge(bar.Inset(-2), Dim)
	bar.Max.X = bar.Min.X + int(float64(bar.Dx())*min(max(v.Progress, 0), 1))
	c.Fill(bar, Gold)
}

func showWorld(c *Canvas, v *View) {
	c.Ops = append(c.Ops, Op{Kind: OpArea, Name: v.Area})
	for i := range v.Actors {
		a := &v.Actors[i]
		if a.Look != "arc" {
			c.Fill(image.Rect(a.X-5, a.Y+2, a.X+5, a.Y+4), Shade)
		}
		c.Sprite(a.Look, a.Frame, a.X-8, a.Y-12, a.Flip)
		if a.Full > 0 && a.HP < a.Full {
			bar := image.Rect(a.X-8, a.Y-16, a.X+8, a.Y-14)
			c.Fill(bar, Ink)
			bar.Max.X = bar.Min.X + 16*a.HP/a.Full
			c.Fill(bar, Ember)
		}
	}
	if v.Glow > 0 {
		c.Ops = append(c.Ops, Op{Kind: OpGlow, Frame: v.Glow})
	}
	if v.Screen != Explore && v.Screen != Combat {
		return
	}
	showBubbles(c, v)
	showStatus(c, v)
}

// showBubbles puts what is said over heads, each where it fits; one that fits
// nowhere waits.
func showBubbles(c *Canvas, v *View) {
	note, _ := noteBox(v)
	caption, _ := captionBox(v)
	taken := []image.Rectangle{note, caption}
	if v.HUD != nil {
		taken = append(taken, hudBox)
	}
	for i := range v.Actors {
		a := &v.Actors[i]
		if a.Says == "" {
			continue
		}
		lines := Wrap(a.Says, 180)
		lines = lines[max(0, len(lines)-4):]
		box, ok := bubbleBox(a, lines, taken)
		if !ok {
			continue
		}
		taken = append(taken, box)
		c.Fill(box, opaque(Night))
		c.Edge(box, Dim)
		inner := image.Rect(box.Min.X+4, box.Min.Y+3, box.Max.X-4, box.Max.Y)
		for j, l := range lines {
			c.Text(inner, j*LineHeight, l, Paper)
		}
	}
}

// bubbleBox finds room for a bubble: over the head, and then ever further away.
func bubbleBox(a *Actor, lines []string, taken []image.Rectangle) (image.Rectangle, bool) {
	w := 0
	for _, l := range lines {
		w = max(w, Measure(l))
	}
	h := len(lines)*LineHeight - 2
	for _, dy := range []int{-22 - h, 12, -50 - h, 40, -90 - h, 80, 120, 160} {
		for _, dx := range []int{0, -w/2 - 12, w/2 + 12, -220, -330} {
			x := min(max(a.X-w/2+dx, 8), Width-w-8)
			y := a.Y + dy
			box := image.Rect(x-4, y-3, x+w+4, y+h+3)
			if y < 48 || box.Max.Y > 312 {
				continue
			}
			free := true
			for _, t := range taken {
				free = free && !box.Overlaps(t)
			}
			if free {
				return box, true
			}
		}
	}
	return image.Rectangle{}, false
}

func showStatus(c *Canvas, v *View) {
	top := image.Rect(0, 0, Width, 20)
	c.Fill(top, Night)
	left, right := image.Rect(8, 0, 380, 20), image.Rect(390, 0, Width-8, 20)
	c.Text(left, 3, v.Status, Paper)
	c.Right(right, 3, v.Order, Sky)
	if v.Wave != "" {
		box := image.Rect(230, 24, 410, 44)
		if v.HUD != nil {
			box = image.Rect(hudLeft/2-90, 24, hudLeft/2+90, 44)
		}
		c.Fill(box, Night)
		c.Centred(box, 3, v.Wave, Ember)
	}
	foot := image.Rect(0, Height-20, Width, Height)
	c.Fill(foot, Night)
	room := image.Rect(8, foot.Min.Y, Width-8, foot.Max.Y)
	c.Text(room, 3, v.Help, Dim)
	for i, h := range v.Hints {
		w := Measure(h) + 16
		box := image.Rect((Width-w)/2, Height-44-i*24, (Width+w)/2, Height-24-i*24)
		c.Fill(box, Night)
		c.Centred(box, 3, h, Gold)
	}
}

// showDialogue is the box at the lower edge: what was said, and what to say.
func showDialogue(c *Canvas, v *View) {
	outer := image.Rect(20, 188, Width-20, Height-6)
	box := c.Panel(outer)
	const face = 48 // three times a sprite
	portrait := image.Rect(box.Min.X, box.Min.Y, box.Min.X+face+8, box.Min.Y+face+8)
	c.Fill(portrait, Meadow)
	c.Edge(portrait, Gold)
	c.Portrait(v.Face, int(v.Tick/30)%2, portrait.Inset(4))
	c.Centred(image.Rect(portrait.Min.X-6, box.Min.Y, portrait.Max.X+6, box.Max.Y), face+12, v.Speaker, Gold)
	left := image.Rect(portrait.Max.X+10, box.Min.Y, box.Min.X+364, box.Max.Y)
	showHeard(c, v, left)
	right := image.Rect(box.Min.X+376, box.Min.Y, box.Max.X, box.Max.Y)
	c.Fill(image.Rect(right.Min.X-8, box.Min.Y, right.Min.X-7, box.Max.Y), Dim)
	if v.Typing {
		c.Text(right, 0, v.T.Say("dialogue.typing"), Dim)
		c.Paragraph(right, LineHeight+6, v.Input+"_", Paper)
		return
	}
	for i, ch := range v.Choices {
		col := Paper
		text := "  " + ch.Text
		if i == v.Chosen {
			text, col = "> "+ch.Text, Gold
		}
		c.Text(right, i*17, text, col)
	}
	for i, p := range v.Prompts {
		c.Text(right, box.Dy()-(len(v.Prompts)-i)*LineHeight, p, Dim)
	}
}

// showHeard writes the end of the conversation, as much as fits.
func showHeard(c *Canvas, v *View, box image.Rectangle) {
	type row struct {
		text string
		kind int
	}
	var rows []row
	for _, l := range v.Heard {
		text, kind := l.Text, 0
		switch {
		case l.Player:
			text, kind = "- "+text, 1
		case l.Bark:
			kind = 2
		case l.Open:
			text += " .."
		}
		for _, w := range Wrap(text, box.Dx()) {
			rows = append(rows, row{w, kind})
		}
	}
	if v.Thinking && v.Tick/20%2 == 0 {
		rows = append(rows, row{". . .", 2})
	}
	room := box.Dy() / LineHeight
	rows = rows[max(0, len(rows)-room):]
	for i, r := range rows {
		c.Text(box, i*LineHeight, r.text, []colour{Paper, Sky, Dim}[r.kind])
	}
}

// showList is a box with a head and choices.
func showList(c *Canvas, v *View, r image.Rectangle) {
	box := c.Panel(r)
	c.Text(box, 0, v.Head, Gold)
	for i, ch := range v.Choices {
		col, text := Paper, "  "+ch.Text
		if ch.Off {
			col = Dim
		}
		if i == v.Chosen {
			text, col = "> "+ch.Text, Gold
		}
		row := image.Rect(box.Min.X, box.Min.Y, box.Max.X-90, box.Max.Y)
		c.Text(row, 24+i*17, text, col)
		c.Right(image.Rect(box.Max.X-86, box.Min.Y, box.Max.X, box.Max.Y), 24+i*17, ch.Note, col)
	}
	for i, p := range v.Prompts {
		c.Text(box, box.Dy()-(len(v.Prompts)-i)*LineHeight+2, p, Dim)
	}
}

func showMenu(c *Canvas, v *View) {
	c.Fill(image.Rect(0, 0, Width, Height), Shade)
	box := c.Panel(image.Rect(40, 62, 330, 336))
	c.Text(box, 0, v.T.Say("menu.title"), Gold)
	c.Text(box, 22, v.T.Say("menu.items"), Sky)
	for i, p := range v.Pack {
		c.Text(box, 38+i*LineHeight, "  "+p, Paper)
	}
	c.Text(box, 134, v.T.Say("menu.quest"), Sky)
	quest := image.Rect(box.Min.X, box.Min.Y, box.Max.X, box.Min.Y+150+3*LineHeight)
	c.Paragraph(quest, 150, v.Quest, Paper)
	c.Text(box, 206, v.T.Say("menu.memory"), Sky)
	for i, m := range v.Memory {
		c.Text(box, 222+i*LineHeight, m, Paper)
	}
	right := c.Panel(image.Rect(344, 198, 600, 336))
	for i, ch := range v.Choices {
		col, text := Paper, "  "+ch.Text
		if i == v.Chosen {
			text, col = "> "+ch.Text, Gold
		}
		c.Text(right, i*17, text, col)
	}
}

// keyRows is how many keys are shown at a time.
const keyRows = 13

// firstKey is the one that is shown first where one is chosen.
func firstKey(chosen, of int) int { return min(max(chosen-keyRows/2, 0), max(of-keyRows, 0)) }

// KeyRow is where a key stands in the list; empty where it is not shown.
func KeyRow(hud bool, chosen, of, i int) image.Rectangle {
	row := i - firstKey(chosen, of)
	if row < 0 || row >= keyRows {
		return image.Rectangle{}
	}
	x, w := ListLeft(hud)
	return image.Rect(x+8, 78+row*17, x+w-8, 78+row*17+16)
}

func showKeys(c *Canvas, v *View) {
	c.Fill(image.Rect(0, 0, Width, Height), Shade)
	x, w := ListLeft(v.HUD != nil)
	box := c.Panel(image.Rect(x, 46, x+w, 336))
	c.Text(box, 0, v.T.Say("keys.title"), Gold)
	first := firstKey(v.Chosen, len(v.Choices))
	for i := first; i < min(first+keyRows, len(v.Choices)); i++ {
		col, text := Paper, "  "+v.Choices[i].Text
		if i == v.Chosen {
			text, col = "> "+v.Choices[i].Text, Gold
		}
		y := 24 + (i-first)*17
		c.Text(image.Rect(box.Min.X, box.Min.Y, box.Min.X+w/2+10, box.Max.Y), y, text, col)
		c.Right(image.Rect(box.Min.X+w/2+14, box.Min.Y, box.Max.X, box.Max.Y), y, v.Choices[i].Note, col)
	}
	c.Text(box, box.Dy()-LetterHeight, v.Head, Dim)
}

// noteBox is where the newest note stands: at the top, under the wave's number.
func noteBox(v *View) (image.Rectangle, []string) {
	if len(v.Notes) == 0 {
		return image.Rectangle{}, nil
	}
	most, centre := 380, Width/2
	if v.HUD != nil {
		most, centre = hudLeft-30, hudLeft/2
	}
	lines := Wrap(v.Notes[len(v.Notes)-1], most)
	lines = lines[:min(len(lines), 2)]
	w := 0
	for _, l := range lines {
		w = max(w, Measure(l))
	}
	y := 23
	if v.Wave != "" && (v.Screen == Explore || v.Screen == Combat) {
		y = 46
	}
	return image.Rect(centre-w/2-8, y, centre+w/2+9, y+len(lines)*LineHeight+6), lines
}

func showNotes(c *Canvas, v *View) {
	box, lines := noteBox(v)
	if len(lines) == 0 {
		return
	}
	c.Fill(box, opaque(Night))
	c.Edge(box, Leaf)
	for i, l := range lines {
		c.Text(image.Rect(box.Min.X+8, box.Min.Y, box.Max.X-8, box.Max.Y), 4+i*LineHeight, l, Leaf)
	}
}

// captionBox is where the tour's text stands, away from what it speaks of.
func captionBox(v *View) (image.Rectangle, []string) {
	if v.Caption == "" {
		return image.Rectangle{}, nil
	}
	x0, x1 := 90, 550
	if v.HUD != nil && v.Screen != Menu && v.Screen != Explore && v.Screen != Combat {
		x0, x1 = 4, hudLeft-4
	}
	lines := Wrap(v.Caption, x1-x0-16)
	h := len(lines)*LineHeight + 8
	bottom := 314
	switch v.Screen {
	case Dialogue:
		bottom = 185
	case Menu, Keys, Title, Shop, Loading:
		bottom = Height - 1
	}
	return image.Rect(x0, bottom-h, x1, bottom), lines
}

func showCaption(c *Canvas, v *View) {
	box, lines := captionBox(v)
	c.Fill(box, opaque(Ink))
	c.Edge(box, Violet)
	for i, l := range lines {
		c.Centred(image.Rect(box.Min.X+6, box.Min.Y, box.Max.X-6, box.Max.Y), 5+i*LineHeight, l, Paper)
	}
}

const (
	hudLeft   = 336
	hudBottom = 186
)

var hudBox = image.Rect(hudLeft, 22, Width-4, hudBottom)

var causeColours = [Causes]colour{Leaf, Gold, Ember, Violet}

// graphHeight is twice the target.
const graphHeight = 28

func showHUD(c *Canvas, h *HUD) {
	box := hudBox
	c.Fill(box, Night)
	c.Edge(box, Sky)
	in := box.Inset(5)
	c.Text(in, 0, h.Head, Paper)
	graph := image.Rect(in.Min.X, in.Min.Y+15, in.Max.X, in.Min.Y+15+graphHeight)
	c.Fill(graph, opaque(Night))
	bars := h.Bars[max(0, len(h.Bars)-graph.Dx()):]
	for i, b := range bars {
		height := 1
		if h.TargetMs > 0 {
			height = min(max(int(float64(b.Ms)/(2*h.TargetMs)*float64(graph.Dy())), 1), graph.Dy())
		}
		x := graph.Max.X - len(bars) + i
		c.Fill(image.Rect(x, graph.Max.Y-height, x+1, graph.Max.Y), causeColours[b.Cause])
	}
	mid := graph.Min.Y + graph.Dy()/2
	c.Fill(image.Rect(graph.Min.X, mid, graph.Max.X, mid+1), Sky)
	legend := in
	for cause, text := range h.Late {
		c.Text(legend, graphHeight+18, text, causeColours[cause])
		legend.Min.X = min(legend.Min.X+Measure(text)+12, legend.Max.X)
	}
	y := graphHeight + 18 + LetterHeight
	for _, l := range h.Lines {
		c.Text(in, y, l, Dim)
		y += LetterHeight
	}
	for i, p := range h.Past { // two in a row
		cell := image.Rect(in.Min.X, in.Min.Y, in.Min.X+in.Dx()/2-3, in.Max.Y)
		if i%2 == 1 {
			cell = cell.Add(image.Pt(in.Dx()/2+3, 0))
		}
		col := Dim
		if p.On {
			col = Paper
		}
		c.Text(cell, in.Dy()-2*LetterHeight+i/2*LetterHeight, p.Text, col)
	}
}
