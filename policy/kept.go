package policy

import "regexp"

var imageDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// kept takes over the workspace and the image of another run. Only who may run what he likes here has that door: neither is held
// against anything but what the owner of this host has.
func (d *decision) kept() {
	if (d.req.Kept != nil || d.req.Image != "") && d.req.Client != ClientCLI {
		d.fault("a run of client %q cannot take over the workspace or the image of another", d.req.Client)
		return
	}
	if k := d.req.Kept; k != nil {
		if d.req.Dir != "" || len(d.req.Files) > 0 || len(d.req.Uploads) > 0 || d.req.Code != nil && d.req.Code.Bytes != nil {
			d.fault("the workspace of another run takes no other files")
		}
		d.plan.Kept = k
	}
	if d.req.Image != "" {
		if !imageDigest.MatchString(d.req.Image) {
			d.fault("image %.80q is not a digest", d.req.Image)
		}
		d.plan.Image = d.req.Image
		d.plan.Grants = append(d.plan.Grants, "image "+d.req.Image+" (invoker)")
	}
}

// maxSeed is the largest PYTHONHASHSEED.
const maxSeed = 1<<32 - 1

// held settles what a deterministic run starts from.
func (d *decision) held() {
	if !d.req.Deterministic {
		if d.req.Held != nil {
			d.fault("a clock and a seed are for deterministic runs")
		}
		return
	}
	h := Usual
	if d.req.Held != nil {
		h = *d.req.Held
	}
	switch {
	case h.ClockMs < 0 || h.ClockMs > 1<<42: // in the year 2109
		d.fault("a clock cannot start at %d ms", h.ClockMs)
	case h.StepNs < 1 || h.StepNs > 1e6:
		d.fault("a clock cannot move on by %d ns", h.StepNs)
	case h.Seed < 0 || h.Seed > maxSeed:
		d.fault("seed %d is not between 0 and %d", h.Seed, maxSeed)
	}
	d.plan.Held = &h
}
