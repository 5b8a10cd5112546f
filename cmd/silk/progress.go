package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/silk-sandbox/silk/image"
)

const (
	quiet    = time.Second      // work that takes less shows no progress
	lineWait = 10 * time.Second // between two lines where there is no terminal
)

// progress shows how long work goes on, on stderr: a bar on a terminal, plain lines elsewhere, nothing for work of less
// than a second. done clears the bar; it may be called twice.
func (a *app) progress() (report image.Progress, done func()) {
	p := &progressView{app: a, began: time.Now(), terminal: isTerminal(a.err)}
	return p.report, p.done
}

type progressView struct {
	app      *app
	terminal bool
	began    time.Time

	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	what  string
	total int64
	line  time.Time // when the last plain line was written
}

func (p *progressView) report(done, total int64, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.began) < quiet {
		return
	}
	if !p.terminal {
		if now.Sub(p.line) >= lineWait || what != p.what {
			p.line, p.what = now, what
			text := what
			if total > 0 {
				text += fmt.Sprintf(": %s of %s (%d %%)", sizeText(done), sizeText(total), done*100/total)
			} else if done > 0 {
				text += ": " + sizeText(done)
			}
			p.app.errorf("%s", text)
		}
		return
	}
	if p.bar == nil || what != p.what || total != p.total {
		p.clear()
		p.what, p.total = what, total
		options := []progressbar.Option{
			progressbar.OptionSetWriter(p.app.err),
			progressbar.OptionSetDescription(what),
			progressbar.OptionShowBytes(true),
			progressbar.OptionShowTotalBytes(true),
			progressbar.OptionShowCount(),
			progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetWidth(24),
			progressbar.OptionThrottle(100 * time.Millisecond),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionShowElapsedTimeOnFinish(),
			progressbar.OptionClearOnFinish(),
		}
		if total == unknown {
			options = append(options, progressbar.OptionShowBytes(false), progressbar.OptionSetElapsedTime(true), progressbar.OptionSpinnerType(14))
		}
		p.bar = progressbar.NewOptions64(max(total, -1), options...)
	}
	_ = p.bar.Set64(done) // a bar that cannot be drawn is no fault of the work
}

func (p *progressView) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

func (p *progressView) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// busy shows that something of unknown length goes on, if it takes longer than a second and stderr is a terminal. done
// ends it and waits until the line is clean.
func (a *app) busy(what string) (done func()) {
	if !isTerminal(a.err) {
		return func() {}
	}
	report, clear := a.progress()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := int64(1); ; n++ {
			select {
			case <-stop:
				clear()
				return
			case <-tick.C:
				report(n, unknown, what)
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}

// unknown is the total of work whose length nobody knows; done is then no number of bytes.
const unknown = -2
