package workspace

import "io"

// Fill writes src to w.
func Fill(w io.Writer, src Source, lim FillLimits) (Manifest, error) { panic("skeleton") }
