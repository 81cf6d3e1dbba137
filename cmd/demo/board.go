package main

// The screen. On a terminal a block of lines at the bottom is drawn again and again in place, and events scroll by above it; elsewhere there are
// only lines. Every write goes out under one mutex and leaves the cursor in the first column below the block.

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// The tones, as SGR sequences.
const (
	plain  = ""
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

type board struct {
	began  time.Time
	colour bool
	live   bool
	size   func() (width, height int) // of the terminal

	mu    sync.Mutex
	out   io.Writer
	block []string // as it stands on the screen
}

// newBoard looks at out and at the environment (NO_COLOR, TERM) for what is wanted.
func newBoard(out io.Writer) *board {
	b := &board{began: time.Now(), out: out, size: func() (int, int) { return 80, 24 }}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return b
	}
	b.live, b.colour = true, os.Getenv("NO_COLOR") == ""
	b.size = func() (int, int) {
		if w, h, err := term.GetSize(int(file.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
		return 80, 24
	}
	fmt.Fprint(out, hideCursor)
	return b
}

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearLine  = "\x1b[K" // from the cursor on
	clearBelow = "\x1b[J"
)

// paint gives text a tone, where there are colours.
func (b *board) paint(tone, text string) string {
	if !b.colour || tone == plain {
		return text
	}
	return tone + text + reset
}

// say adds one line to what scrolls by.
func (b *board) say(tag, tone, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	begin := b.paint(dim, fmt.Sprintf("%5.1fs", time.Since(b.began).Seconds())) + " " + b.paint(tone, fmt.Sprintf("%-6s", tag)) + " "
	if text = oneLine(text); !b.live {
		fmt.Fprintln(b.out, begin+text)
		return
	}
	width, _ := b.size()
	lines := wrap(text, width-len(margin))
	lines[0] = begin + lines[0]
	for i := range lines[1:] {
		lines[i+1] = margin + lines[i+1]
	}
	b.rewrite(b.block, lines...)
}

const margin = "              " // below the time and the tag

// draw puts the picture in the place of the one before. Elsewhere than on a terminal it is one line.
func (b *board) draw(v view) {
	if !b.live {
		b.say("", plain, v.line())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	width, height := b.size()
	picture := v.picture(b.paint, width, height)
	for i := range picture {
		picture[i] = fit(picture[i], width-1)
	}
	b.rewrite(picture)
}

// every is how often to draw.
func (b *board) every() time.Duration {
	if b.live {
		return 150 * time.Millisecond
	}
	return 5 * time.Second
}

// close takes the picture away and leaves the lines.
func (b *board) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live {
		b.rewrite(nil)
		io.WriteString(b.out, showCursor)
		b.live = false
	}
}

// rewrite replaces the block by lines, which stay, and another block. What is drawn in place is overwritten line by line: to clear it first
// would flicker.
func (b *board) rewrite(block []string, lines ...string) {
	var s strings.Builder
	if n := len(b.block); n > 0 {
		fmt.Fprintf(&s, "\r\x1b[%dA", n)
	}
	if len(lines) > 0 {
		s.WriteString(clearBelow)
	}
	for _, l := range slices.Concat(lines, block) {
		s.WriteString(clearLine + l + "\n")
	}
	s.WriteString(clearBelow)
	b.block = block
	io.WriteString(b.out, s.String())
}

// oneLine takes out of a text what would move the cursor.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) }), " ")
}

// wrap breaks a text between words into lines of that width. A word that is longer stays whole.
func wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// fit cuts a line to the width of the terminal. Sequences of SGR take no room.
func fit(line string, width int) string {
	room := width
	for i := 0; i < len(line); {
		if line[i] == '\x1b' {
			i += strings.IndexByte(line[i:], 'm') + 1
			continue
		}
		if room == 0 {
			if line = line[:i]; strings.Contains(line, "\x1b") {
				line += reset
			}
			return line
		}
		_, n := utf8.DecodeRuneInString(line[i:])
		i += n
		room--
	}
	return line
}
