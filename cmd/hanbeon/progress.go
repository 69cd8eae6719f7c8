package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// Something that is done sooner shows no progress.
const progressAfter = time.Second

// Where the end is not known, a plain line comes so often.
const progressEvery = 5 * time.Second

// progress shows how far something has come, on stderr: a bar on a terminal, elsewhere one line per 10 %. It is used by one goroutine.
type progress struct {
	out      io.Writer
	now      func() time.Time
	terminal bool
	what     string
	begun    time.Time
	tenths   int64     // shown last
	told     time.Time // when the last line came, where the end is not known

	bars        *mpb.Progress
	bar         *mpb.Bar
	done, total int64
}

func (a *app) progress(what string) *progress {
	terminal := false
	if f, ok := a.stderr.(*os.File); ok {
		_, rows, err := term.GetSize(int(f.Fd()))
		terminal = err == nil && rows > 0 // one without a size has no room for a bar
	}
	return newProgress(a.stderr, a.now, terminal, what)
}

func newProgress(out io.Writer, now func() time.Time, terminal bool, what string) *progress {
	return &progress{out: out, now: now, terminal: terminal, what: what, begun: now()}
}

// set shows that so much is done of a total; total 0 is not known yet.
func (p *progress) set(done, total int64) {
	p.done, p.total = done, total
	if p.now().Sub(p.begun) < progressAfter {
		return
	}
	if p.terminal {
		p.draw()
		return
	}
	p.line()
}

func (p *progress) draw() {
	if p.bar == nil {
		p.bars = mpb.New(mpb.WithOutput(p.out), mpb.WithWidth(48), mpb.WithAutoRefresh())
		p.bar = p.bars.AddBar(0,
			mpb.PrependDecorators(decor.Name(p.what+" ")),
			mpb.AppendDecorators(decor.Any(func(s decor.Statistics) string {
				if s.Total <= 0 {
					return " " + comma(s.Current)
				}
				return fmt.Sprintf(" %s of %s, %d %%", comma(s.Current), comma(s.Total), s.Current*100/s.Total)
			})))
	}
	p.bar.SetTotal(p.total, false)
	p.bar.SetCurrent(p.done)
}

func (p *progress) line() {
	now := p.now()
	if p.total <= 0 {
		if now.Sub(p.told) >= progressEvery {
			p.told = now
			fmt.Fprintf(p.out, "%s: %s so far\n", p.what, comma(p.done))
		}
		return
	}
	if tenths := 10 * min(p.done, p.total) / p.total; tenths > p.tenths {
		p.tenths = tenths
		fmt.Fprintf(p.out, "%s: %d %% (%s of %s)\n", p.what, tenths*10, comma(p.done), comma(p.total))
	}
}

// end leaves what is shown as it is.
func (p *progress) end() {
	if p.bar == nil {
		return
	}
	if p.total > 0 && p.done >= p.total {
		p.bar.SetTotal(p.total, true)
	} else {
		p.bar.Abort(false)
	}
	p.bars.Wait()
}
